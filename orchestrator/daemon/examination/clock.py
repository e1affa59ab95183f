"""Whether the machine's clock is kept right by something: limits reset, and schedules begin, by the clock."""

import ctypes
from collections.abc import Iterator

from orchestrator.daemon.inspection.doctor_checks import DoctorFinding, Level

TIMEX_BYTES = 512
"""More than the structure `timex` of adjtimex(2) has on any machine; all zeros asks and changes nothing."""
TIME_ERROR = 5
"""What adjtimex(2) returns while nothing keeps the clock synchronised."""


def check_clock() -> Iterator[DoctorFinding]:
    """Check that the kernel's clock is synchronised."""
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    if state < 0:
        return
    if state == TIME_ERROR:
        text = "nothing synchronises the clock: resets of limits, schedules and run windows may be missed"
        mend = "sudo timedatectl set-ntp true"
        yield DoctorFinding(name="clock", level=Level.WARN, text=text, mend=mend)
    else:
        yield DoctorFinding(name="clock", level=Level.OK, text="it is synchronised")
