"""The GitHub API of the forge on loopback: REST, and the GraphQL queries that the client sends."""

import re
from collections.abc import Callable
from dataclasses import replace

from orchestrator.formats.codec import Json, JsonObject
from orchestrator.formats.fields import list_of, object_of, text_of
from tests.fakes.forge_server import REPO, Answer, Asked, ForgeServer, Job, Opinion, Pull, Said
from tests.fakes.github_description import completed, objections

PAGE = 100
NOT_FOUND = Answer(status=404, body={"message": "Not Found"})

Handler = Callable[[ForgeServer, Asked, str], Answer]


def answer(forge: ForgeServer, asked: Asked) -> Answer:
    """Return the response of GitHub, complete by its published description, to which the request must keep."""
    found = _answer(forge, asked)
    if found is NOT_FOUND or not asked.path.startswith("/repos/"):
        return found
    forge.objections += objections(asked.method, asked.path, asked.query, asked.body)
    if isinstance(found.body, bytes):
        return found
    body, wrong = completed(asked.method, asked.path, found.status, found.body)
    forge.objections += wrong
    return replace(found, body=body)


def _answer(forge: ForgeServer, asked: Asked) -> Answer:
    if asked.path == "/graphql":
        return _graphql(forge, asked.body)
    if asked.path.startswith("/blobs/"):
        return Answer(body=_job(forge, asked.path.rpartition("/")[2]).log.encode())
    path = asked.path.removeprefix(f"/repos/{REPO}")
    if path == asked.path:
        return NOT_FOUND
    for method, pattern, handler in ROUTES:
        match = re.fullmatch(pattern, path)
        if match and method == asked.method:
            return handler(forge, asked, match[1] if match.groups() else "")
    return NOT_FOUND


def _listed(forge: ForgeServer, asked: Asked, _: str) -> Answer:
    owner, _, branch = asked.query["head"].partition(":")
    assert owner == REPO.partition("/")[0]
    wanted = {"open": {"open"}, "closed": {"closed", "merged"}}[asked.query["state"]]
    found = [pull for pull in forge.pulls if pull.status in wanted]
    return Answer(body=[_pull(pull) for pull in reversed(found) if pull.head == branch])


def _opened(forge: ForgeServer, asked: Asked, _: str) -> Answer:
    head, base = text_of(asked.body["head"]), text_of(asked.body["base"])
    if any((one.head, one.base, one.status) == (head, base, "open") for one in forge.pulls):
        return _invalid(f"A pull request already exists for team:{head}.")
    if head not in forge.branches:
        return Answer(
            status=422,
            body={
                "message": "Validation Failed",
                "errors": [{"resource": "PullRequest", "field": "head", "code": "invalid"}],
            },
        )
    pull = Pull(
        number=len(forge.pulls) + 1,
        head=head,
        base=base,
        title=text_of(asked.body["title"], 256),
        body=text_of(asked.body["body"], 65536),
        draft=False,
        head_sha=forge.branches[head],
        author=forge.viewer,
    )
    forge.pulls.append(pull)
    return Answer(status=201, body=_pull(pull))


def _one(forge: ForgeServer, _: Asked, number: str) -> Answer:
    return Answer(body=_pull(forge.pull(number)))


def _changed(forge: ForgeServer, asked: Asked, number: str) -> Answer:
    pull = forge.pull(number)
    pull.body = text_of(asked.body["body"], 65536)
    return Answer(body=_pull(pull))


def _labelled(forge: ForgeServer, asked: Asked, number: str) -> Answer:
    if forge.labels_refused:
        return Answer(status=403, body={"message": "Resource not accessible by personal access token"})
    pull = forge.pull(number)
    pull.labels += [text_of(label) for label in list_of(asked.body["labels"])]
    return Answer(body=[{"name": label} for label in pull.labels])


def _conversation(forge: ForgeServer, asked: Asked, number: str) -> Answer:
    pull = forge.pull(number)
    if asked.method == "POST":
        forge.says(forge.viewer, text_of(asked.body["body"], 65536))
        return Answer(status=201, body=_comment(forge, pull.conversation[-1]))
    return Answer(body=[_comment(forge, said) for said in pull.conversation])


def _threads(forge: ForgeServer, _: Asked, number: str) -> Answer:
    return Answer(body=[_comment(forge, said) for said in forge.pull(number).threads])


def _thread_comment(forge: ForgeServer, _: Asked, comment: str) -> Answer:
    found = [said for pull in forge.pulls for said in pull.threads if said.id == int(comment)]
    return Answer(body=_comment(forge, found[0])) if found else NOT_FOUND


def _replied(forge: ForgeServer, asked: Asked, place: str) -> Answer:
    number, root = place.split("/comments/")
    roots = [said for said in forge.pull(number).threads if said.id == int(root) and said.root is None]
    if not roots:
        return NOT_FOUND
    said = forge.says(forge.viewer, text_of(asked.body["body"], 65536), root=roots[0].id)
    return Answer(status=201, body=_comment(forge, said))


def _reviews(forge: ForgeServer, _: Asked, number: str) -> Answer:
    return Answer(body=[_review(one) for one in forge.pull(number).opinions])


def _requested(forge: ForgeServer, asked: Asked, number: str) -> Answer:
    pull = forge.pull(number)
    users = [text_of(user) for user in list_of(asked.body["reviewers"])]
    if pull.author in users:
        return _invalid("Review cannot be requested from pull request author.")
    if not forge.users.keys() >= set(users):
        return _invalid("Reviews may only be requested from collaborators.")
    pull.asked += users
    return Answer(status=201, body=_pull(pull))


def _permission(forge: ForgeServer, _: Asked, user: str) -> Answer:
    if user not in forge.users:
        return Answer(status=404, body={"message": f"{user} is not a user"})
    return Answer(body={"permission": forge.users[user], "user": {"login": user}})


def _log(forge: ForgeServer, asked: Asked, job: str) -> Answer:
    return Answer(status=302, headers={"Location": f"http://localhost:{forge.url.rpartition(':')[2]}/blobs/{job}"})


def _run(forge: ForgeServer, asked: Asked, run: str) -> Answer:
    return Answer(body={"output": {"title": "It failed", "summary": _job(forge, run).log, "text": None}})


def _merged(forge: ForgeServer, asked: Asked, number: str) -> Answer:
    """Merge as for an administrator: rules of the repository are bypassed, conflicts are not."""
    pull = forge.pull(number)
    if asked.body["sha"] != pull.head_sha:
        return Answer(status=409, body={"message": "Head branch was modified. Review and try the merge again."})
    if pull.conflict or pull.status != "open":
        return Answer(status=405, body={"message": "Pull Request is not mergeable"})
    pull.status, pull.merge_commit = "merged", forge.push(pull.base)
    forge.merge_messages.append(f"{asked.body['commit_title']}\n\n{asked.body['commit_message']}")
    return Answer(body={"sha": pull.merge_commit, "merged": True})


def _ref(forge: ForgeServer, asked: Asked, branch: str) -> Answer:
    if branch not in forge.branches:
        return NOT_FOUND
    if asked.method == "DELETE":
        del forge.branches[branch]
        return Answer(status=204)
    return Answer(body={"ref": f"refs/heads/{branch}", "object": {"sha": forge.branches[branch]}})


ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", r"/pulls", _listed),
    ("POST", r"/pulls", _opened),
    ("GET", r"/pulls/(\d+)", _one),
    ("PATCH", r"/pulls/(\d+)", _changed),
    ("POST", r"/issues/(\d+)/labels", _labelled),
    ("GET", r"/issues/(\d+)/comments", _conversation),
    ("POST", r"/issues/(\d+)/comments", _conversation),
    ("GET", r"/pulls/(\d+)/comments", _threads),
    ("GET", r"/pulls/comments/(\d+)", _thread_comment),
    ("POST", r"/pulls/(\d+/comments/\d+)/replies", _replied),
    ("GET", r"/pulls/(\d+)/reviews", _reviews),
    ("POST", r"/pulls/(\d+)/requested_reviewers", _requested),
    ("GET", r"/collaborators/([^/]+)/permission", _permission),
    ("GET", r"/actions/jobs/(\d+)/logs", _log),
    ("GET", r"/check-runs/(\d+)", _run),
    ("PUT", r"/pulls/(\d+)/merge", _merged),
    ("GET", r"/git/ref/heads/(.+)", _ref),
    ("DELETE", r"/git/refs/heads/(.+)", _ref),
]


def _graphql(forge: ForgeServer, body: JsonObject) -> Answer:
    query, variables = text_of(body["query"], 10_000), object_of(body.get("variables"))
    repository: JsonObject = {}
    if "repository(" in query and f"{variables['owner']}/{variables['name']}" != REPO:
        error: JsonObject = {"type": "NOT_FOUND", "message": "Could not resolve to a Repository"}
        return Answer(body={"data": {"repository": None}, "errors": [error]})
    if "reviewThreads" in query:
        roots = [said for said in forge.pull(variables["number"]).threads if said.root is None]
        threads = [_thread(said) for said in roots]
        repository = {"pullRequest": {"reviewThreads": _connection(threads, variables)}}
    elif "statusCheckRollup" in query:
        runs = [_check(job) for job in forge.jobs if job.commit == variables["sha"]]
        rollup: Json = {"contexts": _connection(runs, variables)} if runs else None
        repository = {"object": {"statusCheckRollup": rollup}}
    elif "mergeStateStatus" in query:
        repository = {"pullRequest": _state(forge, forge.pull(variables["number"]))}
    return Answer(body={"data": {"viewer": {"login": forge.viewer}, "repository": repository}})


def _connection(rows: list[JsonObject], variables: JsonObject) -> JsonObject:
    begin = int(text_of(variables.get("after")) or 0)
    nodes: list[Json] = [*rows[begin : begin + PAGE]]
    more = begin + PAGE < len(rows)
    return {"nodes": nodes, "pageInfo": {"hasNextPage": more, "endCursor": str(begin + PAGE)}}


def _state(forge: ForgeServer, pull: Pull) -> JsonObject:
    can = "CONFLICTING" if pull.conflict else "UNKNOWN" if pull.checking else "MERGEABLE"
    status = {"CONFLICTING": "DIRTY", "UNKNOWN": "UNKNOWN"}.get(can, pull.rule.upper() or "CLEAN")
    latest = {one.author: one for one in pull.opinions if one.state in {"APPROVED", "CHANGES_REQUESTED", "DISMISSED"}}
    reviews: list[Json] = [
        {
            "state": one.state,
            "authorCanPushToRepository": forge.users.get(one.author) in {"write", "admin"},
            "author": {"login": one.author},
            "commit": {"oid": one.commit},
        }
        for one in latest.values()
    ]
    return {
        "headRefOid": pull.head_sha,
        "mergeable": can,
        "mergeStateStatus": status,
        "reviewDecision": "REVIEW_REQUIRED" if pull.rule == "blocked" else None,
        "latestOpinionatedReviews": {"nodes": reviews},
    }


def _thread(said: Said) -> JsonObject:
    first: list[Json] = [{"url": f"https://github.test/{REPO}/pull/1#discussion_r{said.id}"}]
    return {"isResolved": said.resolved, "comments": {"nodes": first}}


def _check(job: Job) -> JsonObject:
    if job.name.startswith("status/"):
        return {"__typename": "StatusContext", "context": job.name, "state": job.status, "targetUrl": "https://ci.test"}
    done = job.status not in {"QUEUED", "IN_PROGRESS"}
    url = (
        f"https://github.test/{REPO}/actions/runs/7/job/{job.id}"
        if job.name.startswith("actions/")
        else "https://ci.test"
    )
    return {
        "__typename": "CheckRun",
        "databaseId": job.id,
        "name": job.name,
        "status": "COMPLETED" if done else job.status,
        "conclusion": job.status if done else None,
        "detailsUrl": url,
        "checkSuite": {
            "app": {"databaseId": 15368},
            "workflowRun": {"event": "pull_request", "workflow": {"databaseId": job.workflow}},
        },
    }


def _pull(pull: Pull) -> JsonObject:
    return {
        "number": pull.number,
        "html_url": f"https://github.test/{REPO}/pull/{pull.number}",
        "state": "open" if pull.status == "open" else "closed",
        "merged_at": "2026-11-21T23:00:00Z" if pull.status == "merged" else None,
        "merge_commit_sha": pull.merge_commit or "7e57" * 10,
        "head": {"ref": pull.head, "sha": pull.head_sha, "repo": {"full_name": REPO}},
        "base": {"ref": pull.base},
        "user": {"login": pull.author},
        "title": pull.title,
        "body": pull.body,
        "labels": [{"name": label} for label in pull.labels],
        "draft": pull.draft,
        "requested_reviewers": [{"login": user} for user in pull.asked],
    }


def _comment(forge: ForgeServer, said: Said) -> JsonObject:
    whole: JsonObject = {
        "id": said.id,
        "user": {"login": said.author},
        "body": said.body,
        "created_at": said.at,
        "updated_at": said.at,
        "html_url": f"https://github.test/{REPO}/pull/1#c{said.id}",
    }
    if said.place is None and said.root is None:
        return whole
    root = next((one for pull in forge.pulls for one in pull.threads if one.id == said.root), said)
    path, line = root.place or ("", None)
    more: JsonObject = {
        "path": path,
        "line": None if said.outdated else line,
        "original_line": line,
        "subject_type": "line" if line else "file",
    }
    return whole | more | ({"in_reply_to_id": said.root} if said.root else {})


def _review(one: Opinion) -> JsonObject:
    url = f"https://github.test/{REPO}/pull/1#r{one.id}"
    about: JsonObject = {"state": one.state, "submitted_at": one.at, "html_url": url}
    return {"id": one.id, "user": {"login": one.author}, "body": one.body, **about}


def _job(forge: ForgeServer, job: str) -> Job:
    return next(one for one in forge.jobs if one.id == int(job))


def _invalid(message: str) -> Answer:
    errors: list[Json] = [{"resource": "PullRequest", "code": "custom", "message": message}]
    return Answer(status=422, body={"message": "Validation Failed", "errors": errors})
