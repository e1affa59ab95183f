"""The GitLab API of the forge on loopback: REST, version 4."""

import re
from collections.abc import Callable

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import list_of, text_of
from tests.fakes.forge_server import FIRST_ID, REPO, Answer, Asked, ForgeServer, Job, Pull, Said, sha_of
from tests.fakes.gitlab_description import answer_objections, objections

NOT_FOUND = Answer(status=404, body={"message": "404 Not found"})
LEVELS = {"read": 20, "write": 30, "admin": 40}

Handler = Callable[[ForgeServer, Asked, str], Answer]


def answer(forge: ForgeServer, asked: Asked) -> Answer:
    """Return the response of GitLab, held against what GitLab publishes."""
    found = _answer(forge, asked)
    forge.objections += objections(asked.method, asked.path, asked.query, asked.body)
    if not isinstance(found.body, bytes):
        forge.objections += answer_objections(asked.method, asked.path, found.status, found.body)
    return found


def _answer(forge: ForgeServer, asked: Asked) -> Answer:
    if asked.path == "/user":
        return Answer(body=_user(forge, forge.viewer))
    if asked.path == "/users":
        name = asked.query["username"]
        return Answer(body=[_user(forge, name)] if name in forge.users else [])
    if asked.path.startswith("/users/"):
        name = [*forge.users][int(asked.path.rpartition("/")[2]) - 1]
        return Answer(body={**_user(forge, name), "bot": name.endswith("_bot")})
    path = asked.path.removeprefix(f"/projects/{REPO}")
    if path == asked.path:
        return NOT_FOUND
    for method, pattern, handler in ROUTES:
        match = re.fullmatch(pattern, path)
        if match and method == asked.method:
            return handler(forge, asked, match[1] if match.groups() else "")
    return NOT_FOUND


def _listed(forge: ForgeServer, asked: Asked, _: str) -> Answer:
    status = {"opened": "open"}.get(asked.query["state"], asked.query["state"])
    wanted = (asked.query["source_branch"], status)
    found = [pull for pull in forge.pulls if (pull.head, pull.status) == wanted]
    return Answer(body=[_pull(forge, pull) for pull in reversed(found)])


def _opened(forge: ForgeServer, asked: Asked, _: str) -> Answer:
    head, base = text_of(asked.body["source_branch"]), text_of(asked.body["target_branch"])
    there = [one for one in forge.pulls if (one.head, one.base, one.status) == (head, base, "open")]
    if there:
        message = f"Another open merge request already exists for this source branch: !{there[0].number}"
        return Answer(status=409, body={"message": [message]})
    if head not in forge.branches:
        return Answer(status=422, body={"message": {"source_branch": ["does not exist"]}})
    title = text_of(asked.body["title"], 255)
    pull = Pull(
        number=len(forge.pulls) + 1,
        head=head,
        base=base,
        title=title,
        body=text_of(asked.body["description"], 65536),
        draft=False,
        head_sha=forge.branches[head],
        author=forge.viewer,
    )
    forge.pulls.append(pull)
    return Answer(status=201, body=_pull(forge, pull))


def _one(forge: ForgeServer, _: Asked, number: str) -> Answer:
    return Answer(body=_pull(forge, forge.pull(number)))


def _changed(forge: ForgeServer, asked: Asked, number: str) -> Answer:
    pull = forge.pull(number)
    if "description" in asked.body:
        pull.body = text_of(asked.body["description"], 65536)
    pull.labels += [label for label in text_of(asked.body.get("add_labels")).split(",") if label]
    if "reviewer_ids" in asked.body:
        pull.asked = [list(forge.users)[int(str(one)) - 1] for one in list_of(asked.body["reviewer_ids"])]
    return Answer(body=_pull(forge, pull))


def _notes(forge: ForgeServer, asked: Asked, number: str) -> Answer:
    pull = forge.pull(number)
    if asked.method == "POST":
        said = forge.says(forge.viewer, text_of(asked.body["body"], 65536))
        return Answer(status=201, body=_note(forge, pull, said))
    return Answer(body=[_note(forge, pull, said) for said in (*pull.conversation, *pull.threads)])


def _discussions(forge: ForgeServer, _: Asked, number: str) -> Answer:
    pull = forge.pull(number)
    roots = [*pull.conversation, *(said for said in pull.threads if said.root is None)]
    rows: list[Json] = []
    for root in roots:
        said = [root, *(one for one in pull.threads if one.root == root.id)]
        rows.append({"id": f"d{root.id}", "notes": [_note(forge, pull, one) for one in said]})
    for one in pull.opinions:
        if one.state == "APPROVED":
            about: JsonObject = {"id": one.id, "system": True, "body": "approved this merge request"}
            note: JsonObject = {**about, "author": _user(forge, one.author), "created_at": one.at}
            rows.append({"id": f"d{one.id}", "notes": [note]})
    return Answer(body=rows)


def _replied(forge: ForgeServer, asked: Asked, place: str) -> Answer:
    number, root = place.split("/discussions/d")
    said = forge.says(forge.viewer, text_of(asked.body["body"], 65536), root=int(root))
    return Answer(status=201, body=_note(forge, forge.pull(number), said))


def _versions(forge: ForgeServer, _: Asked, number: str) -> Answer:
    """The head came before every review of it and after every other one."""
    pull = forge.pull(number)
    of_head = [one.at for one in pull.opinions if one.commit == pull.head_sha]
    pushed = min(of_head, default=forge.now())
    return Answer(body=[{"head_commit_sha": pull.head_sha, "created_at": pushed}])


def _approvals(forge: ForgeServer, _: Asked, number: str) -> Answer:
    pull = forge.pull(number)
    by: list[Json] = [{"user": _user(forge, one.author)} for one in pull.opinions if one.state == "APPROVED"]
    return Answer(body={"approved_by": by, "approvals_left": 1 if pull.rule == "not_approved" else 0})


def _reviewers(forge: ForgeServer, _: Asked, number: str) -> Answer:
    pull = forge.pull(number)
    against = {one.author: "requested_changes" for one in pull.opinions if one.state == "CHANGES_REQUESTED"}
    states = dict.fromkeys(pull.asked, "unreviewed") | against
    return Answer(body=[{"user": _user(forge, name), "state": state} for name, state in states.items()])


def _member(forge: ForgeServer, _: Asked, user: str) -> Answer:
    levels = [LEVELS[right] for right in forge.users.values()]
    return Answer(body={"access_level": levels[int(user) - 1]}) if int(user) <= len(levels) else NOT_FOUND


def _statuses(forge: ForgeServer, _: Asked, commit: str) -> Answer:
    return Answer(body=[_job(job) for job in forge.jobs if job.commit == commit])


def _trace(forge: ForgeServer, _: Asked, job: str) -> Answer:
    found = [one for one in forge.jobs if one.id == int(job)]
    return Answer(body=found[0].log.encode(), headers={"Content-Type": "text/plain"}) if found else NOT_FOUND


def _merged(forge: ForgeServer, asked: Asked, number: str) -> Answer:
    pull = forge.pull(number)
    if asked.body["sha"] != pull.head_sha:
        return Answer(status=409, body={"message": "SHA does not match HEAD of source branch"})
    if pull.rule == "no right":
        return Answer(status=401, body={"message": "401 Unauthorized"})
    pull.status, pull.merge_commit = "merged", forge.push(pull.base)
    forge.merge_messages.append(text_of(asked.body["squash_commit_message"], 65536))
    return Answer(body=_pull(forge, pull))


def _branch(forge: ForgeServer, asked: Asked, branch: str) -> Answer:
    if branch not in forge.branches:
        return NOT_FOUND
    if asked.method == "DELETE":
        del forge.branches[branch]
        return Answer(status=204)
    return Answer(body={"name": branch, "commit": {"id": forge.branches[branch]}})


ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", r"/merge_requests", _listed),
    ("POST", r"/merge_requests", _opened),
    ("GET", r"/merge_requests/(\d+)", _one),
    ("PUT", r"/merge_requests/(\d+)", _changed),
    ("GET", r"/merge_requests/(\d+)/notes", _notes),
    ("POST", r"/merge_requests/(\d+)/notes", _notes),
    ("GET", r"/merge_requests/(\d+)/discussions", _discussions),
    ("POST", r"/merge_requests/(\d+/discussions/d\d+)/notes", _replied),
    ("GET", r"/merge_requests/(\d+)/versions", _versions),
    ("GET", r"/merge_requests/(\d+)/approvals", _approvals),
    ("GET", r"/merge_requests/(\d+)/reviewers", _reviewers),
    ("PUT", r"/merge_requests/(\d+)/merge", _merged),
    ("GET", r"/members/all/(\d+)", _member),
    ("GET", r"/repository/commits/([0-9a-f]+)/statuses", _statuses),
    ("GET", r"/jobs/(\d+)/trace", _trace),
    ("GET", r"/repository/branches/(.+)", _branch),
    ("DELETE", r"/repository/branches/(.+)", _branch),
]


def _pull(forge: ForgeServer, pull: Pull) -> JsonObject:
    free = "checking" if pull.checking else pull.rule if pull.rule and pull.rule != "no right" else "mergeable"
    reviewers: list[Json] = [_user(forge, name) for name in pull.asked]
    labels: list[Json] = [*pull.labels]
    return {
        "iid": pull.number,
        "id": FIRST_ID,
        "web_url": f"https://gitlab.test/{REPO}/-/merge_requests/{pull.number}",
        "state": {"open": "opened"}.get(pull.status, pull.status),
        "source_branch": pull.head,
        "target_branch": pull.base,
        "source_project_id": 7,
        "target_project_id": 7,
        "sha": pull.head_sha,
        "author": _user(forge, pull.author),
        "title": pull.title,
        "description": pull.body,
        "labels": labels,
        "draft": pull.draft,
        "merge_commit_sha": None,
        "squash_commit_sha": pull.merge_commit,
        "has_conflicts": pull.conflict,
        "detailed_merge_status": "conflict" if pull.conflict else free,
        "reviewers": reviewers,
        "head_pipeline": _trial(forge, pull),
    }


def _trial(forge: ForgeServer, pull: Pull) -> Json:
    """Return the pipeline of the trial merge of a merge request, if jobs ran on it."""
    sha = trial_of(pull)
    if not any(job.commit == sha for job in forge.jobs):
        return None
    ref = f"refs/merge-requests/{pull.number}/merge"
    return {"sha": sha, "ref": ref, "created_at": forge.trial_at}


def trial_of(pull: Pull) -> str:
    """Return the commit of the trial merge of a merge request."""
    return sha_of(f"trial {pull.number}")


def _note(forge: ForgeServer, pull: Pull, said: Said) -> JsonObject:
    root = next((one for one in pull.threads if one.id == said.root), said)
    path, line = root.place or ("", None)
    position: Json = {
        "new_path": path,
        "new_line": line,
        "head_sha": "0" * 40 if said.outdated else pull.head_sha,
    }
    note: JsonObject = {
        "id": said.id,
        "author": _user(forge, said.author),
        "body": said.body,
        "created_at": said.at,
        "updated_at": said.at,
        "system": False,
        "resolvable": root.place is not None,
    }
    return {**note, "resolved": root.resolved, "position": position} if root.place else note


def _job(job: Job) -> JsonObject:
    about: JsonObject = {"id": job.id, "name": job.name, "status": job.status, "target_url": "https://ci.test"}
    return {**about, "allow_failure": job.name.startswith("may fail")}


def _user(forge: ForgeServer, name: str) -> JsonObject:
    return {"id": [*forge.users, name].index(name) + 1, "username": name}
