"""Polls: how a long-running kernel lets other threads run, and ends on a signal.

Loops that may run for long call `poll(context)` regularly (`instructions.py`): blocks of a nest, loops with
inner loops, program loops, in strips, and the outermost of three loops in matrix routines. A context belongs
to one call, on the stack of its thread:

    poll     the address of this function; 0 without Python: the kernel then runs to its end
    stop     nonzero when the call must end; read by all threads that share its blocks
    state    the saved state of Python's lock, 0 if the thread has the lock
    asked    the time of the last check for signals
    thread   the calling thread

The calling thread releases the lock at its first poll, if it has it, so a short call never does. On the main
thread, where Python handles signals, it takes the lock several times a second for that; an exception in a
handler ends the call. Workers of the pool only check `stop`.
"""

from __future__ import annotations

import time

from adcompiler.targets.llvm.instructions import POLL
from adcompiler.targets.llvm.limits import SIGNAL_NANOSECONDS
from adcompiler.targets.llvm.runtime.entry import Code

CLOCK = getattr(time, "CLOCK_MONOTONIC", None)

# Nanoseconds of a clock; if the system has no such function, a number that grows with each poll.
NOW = """
declare i32 @clock_gettime(i32, ptr)
define internal i64 @now() {
  %t = alloca { i64, i64 }
  call i32 @clock_gettime(i32 $CLOCK, ptr %t)
  %s = load i64, ptr %t
  %rest = getelementptr i64, ptr %t, i64 1
  %ns = load i64, ptr %rest
  %whole = mul i64 %s, 1000000000
  %sum = add i64 %whole, %ns
  ret i64 %sum
}
""".replace("$CLOCK", str(CLOCK))
TICKS = """
@ticks = internal global i64 1
define internal i64 @now() {
  %t = atomicrmw add ptr @ticks, i64 100000 monotonic
  ret i64 %t
}
"""


def polls() -> Code:
    """`poll`, and `settle`, which sets the main thread."""
    text = TEXT.replace("$POLL", POLL).replace("$OFTEN", str(SIGNAL_NANOSECONDS))
    clock, needs = (TICKS, ()) if CLOCK is None else (NOW, ("clock_gettime",))
    return Code(clock + text, frozenset(needs), (POLL, "settle"), plain=True)


TEXT = """
declare i64 @PyThread_get_thread_ident()
declare i64 @PyEval_SaveThread()
declare void @PyEval_RestoreThread(i64)
declare i32 @PyErr_CheckSignals()
@main = internal global i64 0

define void @settle(i64 %thread) {
  store i64 %thread, ptr @main
  ret void
}

define i1 @$POLL(ptr %context) {
start:
  %stop = getelementptr i64, ptr %context, i64 1
  %state = getelementptr i64, ptr %context, i64 2
  %asked = getelementptr i64, ptr %context, i64 3
  %owner = getelementptr i64, ptr %context, i64 4
  %word = load atomic i64, ptr %stop monotonic, align 8
  %stops = icmp ne i64 %word, 0
  br i1 %stops, label %end, label %whose
whose:
  %me = call i64 @PyThread_get_thread_ident()
  %thread = load i64, ptr %owner
  %mine = icmp eq i64 %me, %thread
  br i1 %mine, label %lock, label %on
lock:
  %saved = load i64, ptr %state
  %released = icmp ne i64 %saved, 0
  br i1 %released, label %clock, label %release
release:
  %new = call i64 @PyEval_SaveThread()
  store i64 %new, ptr %state
  br label %clock
clock:
  %t = call i64 @now()
  %last = load i64, ptr %asked
  %never = icmp eq i64 %last, 0
  br i1 %never, label %first, label %since
first:
  store i64 %t, ptr %asked
  br label %on
since:
  %spent = sub i64 %t, %last
  %long = icmp ugt i64 %spent, $OFTEN
  br i1 %long, label %ask, label %on
ask:
  store i64 %t, ptr %asked
  %main = load i64, ptr @main
  %here = icmp eq i64 %me, %main
  br i1 %here, label %signals, label %on
signals:
  %held = load i64, ptr %state
  call void @PyEval_RestoreThread(i64 %held)
  %raised = call i32 @PyErr_CheckSignals()
  %again = call i64 @PyEval_SaveThread()
  store i64 %again, ptr %state
  %any = icmp ne i32 %raised, 0
  br i1 %any, label %cancel, label %on
cancel:
  store atomic i64 1, ptr %stop monotonic, align 8
  br label %end
on:
  ret i1 false
end:
  ret i1 true
}
"""
