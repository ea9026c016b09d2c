"""The thread pool of kernels, written in LLVM: work-sharing over the blocks of a parallel region.

`launch(work, data, blocks, threads, context)` calls `work(first, stop, data)` until each block has been done
once, or one of them returns that the call must end. The caller takes part, and polls (`polls.py`) after its
blocks. Each thread has a contiguous range of blocks, so its part of the arrays stays in its cache. It claims
blocks from its range one by one, and then from what is left of other ranges. A thread that another process
interrupts therefore delays the region by at most one block.

A worker joins while there is a free seat: `gate` has their number, and the caller opens and closes it by one
store each. Workers sleep. The caller wakes them when its own blocks show that the rest takes longer than
waking and is more than its next block; short regions stay on one thread. Before a thread sleeps it spins for
some time, because the next region of a kernel, or the end of a block, may be near. If the pool is busy with a
region of another Python thread, the caller runs all blocks alone.

It does not matter which thread runs a block, or when: blocks are independent, and their partial results are
added in order afterwards.
"""

from __future__ import annotations

from platform import machine

from adcompiler.targets.llvm.limits import SIGNAL_NANOSECONDS, SPIN_NANOSECONDS, WAKE_NANOSECONDS
from adcompiler.targets.llvm.runtime.entry import Code
from adcompiler.targets.llvm.runtime.polls import NOW

# A spinning thread yields to the other hardware thread of its core.
PAUSE = """
declare void @{name}({type})
define internal void @pause() {{
  call void @{name}({type} {value})
  ret void
}}
"""
NO_PAUSE = """
define internal void @pause() {
  ret void
}
"""
PAUSES = dict.fromkeys(("x86_64", "amd64"), PAUSE.format(name="llvm.x86.sse2.pause", type="", value=""))
PAUSES |= dict.fromkeys(("aarch64", "arm64"), PAUSE.format(name="llvm.aarch64.hint", type="i32", value="1"))
LOCK_WORDS = 16  # at least the size of the system's mutex and condition variable
SYSTEM = (
    "clock_gettime", "pthread_cond_broadcast", "pthread_cond_init", "pthread_cond_signal",
    "pthread_cond_timedwait", "pthread_cond_wait", "pthread_create", "pthread_detach",
    "pthread_mutex_init", "pthread_mutex_lock", "pthread_mutex_unlock",
)  # fmt: skip


def pool() -> Code:
    """`launch`; `start`, which starts a worker and returns whether that failed; and `renew`, which resets the
    pool in a child of `fork`, where no worker exists."""
    text = TEXT
    for name, value in (("WAKE", WAKE_NANOSECONDS), ("SPIN", SPIN_NANOSECONDS), ("NAP", SIGNAL_NANOSECONDS)):
        text = text.replace(f"${name}", str(value))
    functions = ("launch", "start", "renew")
    return Code(
        NOW + PAUSES.get(machine().lower(), NO_PAUSE) + text, frozenset(SYSTEM), functions, plain=True
    )


TEXT = f"""
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)

@lock = internal global [{LOCK_WORDS} x i64] zeroinitializer, align 64
@opened = internal global [{LOCK_WORDS} x i64] zeroinitializer, align 64
@ended = internal global [{LOCK_WORDS} x i64] zeroinitializer, align 64

; The region: its function and what that is given, its blocks, how many ranges they are cut into, and the next
; block of each range, a line of the cache each.
@work = internal global ptr null, align 64
@data = internal global ptr null
@blocks = internal global i64 0
@ranges = internal global i64 0
@next = internal global ptr null
@context = internal global ptr null
@busy = internal global i64 0, align 64     ; whether there is one
@gate = internal global i64 0, align 64     ; how many workers may still join it
@left = internal global i64 0, align 64     ; how many have left it
@sleeping = internal global i64 0, align 64 ; how many workers sleep, or are about to
@waiting = internal global i64 0            ; whether the caller does

; The first block of a range.
define internal i64 @first(i64 %range, i64 %ranges, i64 %blocks) {{
  %p = mul i64 %range, %blocks
  %q = udiv i64 %p, %ranges
  ret i64 %q
}}

define internal ptr @counter(ptr %next, i64 %range) {{
  %k = mul i64 %range, 8
  %place = getelementptr i64, ptr %next, i64 %k
  ret ptr %place
}}

define internal void @wake_all() {{
  call i32 @pthread_mutex_lock(ptr @lock)
  call i32 @pthread_cond_broadcast(ptr @opened)
  call i32 @pthread_mutex_unlock(ptr @lock)
  ret void
}}

; Claim blocks and do them, from the range of a seat on. Seat 0 is the caller's: it wakes the others.
define internal void @share(i64 %seat) {{
start:
  %work = load ptr, ptr @work
  %data = load ptr, ptr @data
  %blocks = load i64, ptr @blocks
  %ranges = load i64, ptr @ranges
  %next = load ptr, ptr @next
  %mine = icmp eq i64 %seat, 0
  br i1 %mine, label %timed, label %range
timed:
  %began = call i64 @now()
  br label %range
range:
  %begin = phi i64 [ 0, %start ], [ %began, %timed ], [ %begin, %more ]
  %r = phi i64 [ 0, %start ], [ 0, %timed ], [ %r1, %more ]
  %watch = phi i1 [ false, %start ], [ true, %timed ], [ %watching, %more ]
  %done = phi i64 [ 0, %start ], [ 0, %timed ], [ %did, %more ]
  %k = add i64 %seat, %r
  %over = icmp uge i64 %k, %ranges
  %back = sub i64 %k, %ranges
  %which = select i1 %over, i64 %back, i64 %k
  %after = add i64 %which, 1
  %stop = call i64 @first(i64 %after, i64 %ranges, i64 %blocks)
  %place = call ptr @counter(ptr %next, i64 %which)
  br label %claim
claim:
  %watching = phi i1 [ %watch, %range ], [ %still, %done1 ]
  %did = phi i64 [ %done, %range ], [ %did1, %done1 ]
  %block = atomicrmw add ptr %place, i64 1 monotonic
  %there = icmp ult i64 %block, %stop
  br i1 %there, label %one, label %more
one:
  %block1 = add i64 %block, 1
  %did1 = add i64 %did, 1
  %ends = call i1 %work(i64 %block, i64 %block1, ptr %data)
  br i1 %ends, label %end, label %whose
whose:
  br i1 %mine, label %ask, label %done1
ask:
  %asked = call i1 @poll()
  br i1 %asked, label %end, label %own
own:
  br i1 %watching, label %look, label %done1
look:
  %t = call i64 @now()
  %took = sub i64 %t, %begin
  %rest = sub i64 %blocks, %did1
  %all = mul i64 %took, %rest
  %alone = udiv i64 %all, %did1
  %long = icmp ugt i64 %alone, $WAKE
  %several = icmp ugt i64 %rest, 1
  %pays = and i1 %long, %several
  br i1 %pays, label %wake, label %done1
wake:
  %asleep = load atomic i64, ptr @sleeping seq_cst, align 8
  %any = icmp ne i64 %asleep, 0
  br i1 %any, label %call, label %done1
call:
  call void @wake_all()
  br label %done1
done1:
  %still = phi i1 [ 0, %whose ], [ 0, %own ], [ 1, %look ], [ 0, %wake ], [ 0, %call ]
  br label %claim
more:
  %r1 = add i64 %r, 1
  %others = icmp ult i64 %r1, %ranges
  br i1 %others, label %range, label %end
end:
  ret void
}}

define internal i1 @poll() {{
  %context = load ptr, ptr @context
  %none = icmp eq ptr %context, null
  br i1 %none, label %alone, label %whose
alone:
  ret i1 false
whose:
  %poll = load ptr, ptr %context
  %ours = icmp eq ptr %poll, null
  br i1 %ours, label %alone, label %python
python:
  %ends = call i1 %poll(ptr %context)
  ret i1 %ends
}}

define void @launch(ptr %work, ptr %data, i64 %blocks, i64 %threads, ptr %context) {{
  %taken = cmpxchg ptr @busy, i64 0, i64 1 acquire monotonic
  %mine = extractvalue {{ i64, i1 }} %taken, 1
  br i1 %mine, label %open, label %alone
alone:
  call i1 %work(i64 0, i64 %blocks, ptr %data)
  ret void
open:
  %few = icmp ult i64 %blocks, %threads
  %ranges = select i1 %few, i64 %blocks, i64 %threads
  %size = mul i64 %ranges, 8
  %next = alloca i64, i64 %size, align 64
  br label %fill
fill:
  %k = phi i64 [ 0, %open ], [ %k1, %fill ]
  %place = call ptr @counter(ptr %next, i64 %k)
  %block = call i64 @first(i64 %k, i64 %ranges, i64 %blocks)
  store i64 %block, ptr %place
  %k1 = add i64 %k, 1
  %again = icmp ult i64 %k1, %ranges
  br i1 %again, label %fill, label %go
go:
  store ptr %work, ptr @work
  store ptr %data, ptr @data
  store i64 %blocks, ptr @blocks
  store i64 %ranges, ptr @ranges
  store ptr %next, ptr @next
  store ptr %context, ptr @context
  store atomic i64 0, ptr @left monotonic, align 8
  %seats = sub i64 %ranges, 1
  store atomic i64 %seats, ptr @gate seq_cst, align 8
  call void @share(i64 0)
  %free = atomicrmw xchg ptr @gate, i64 0 seq_cst
  %joined = sub i64 %seats, %free
  call void @join(i64 %joined)
  store atomic i64 0, ptr @busy release, align 8
  ret void
}}

; Wait until so many workers have left the region.
define internal void @join(i64 %joined) {{
start:
  %until = alloca {{ i64, i64 }}
  %rest = getelementptr i64, ptr %until, i64 1
  %first = call i1 @have_left(i64 %joined)
  br i1 %first, label %end, label %timed
timed:
  %begin = call i64 @now()
  br label %spin
spin:
  %done = call i1 @have_left(i64 %joined)
  br i1 %done, label %end, label %still
still:
  %enough = call i1 @spun(i64 %begin)
  br i1 %enough, label %sleep, label %spin
sleep:
  call i32 @pthread_mutex_lock(ptr @lock)
  store atomic i64 1, ptr @waiting seq_cst, align 8
  br label %ask
ask:
  %now = call i1 @have_left(i64 %joined)
  br i1 %now, label %awake, label %wait
wait:
  call i32 @clock_gettime(i32 0, ptr %until)
  %ns = load i64, ptr %rest
  %later = add i64 %ns, $NAP
  %carry = icmp uge i64 %later, 1000000000
  br i1 %carry, label %second, label %nap
second:
  %s = load i64, ptr %until
  %s1 = add i64 %s, 1
  store i64 %s1, ptr %until
  br label %nap
nap:
  %less = sub i64 %later, 1000000000
  %part = select i1 %carry, i64 %less, i64 %later
  store i64 %part, ptr %rest
  %late = call i32 @pthread_cond_timedwait(ptr @ended, ptr @lock, ptr %until)
  %timeout = icmp ne i32 %late, 0
  br i1 %timeout, label %let, label %ask
let:
  call i32 @pthread_mutex_unlock(ptr @lock)
  call i1 @poll()
  call i32 @pthread_mutex_lock(ptr @lock)
  br label %ask
awake:
  store atomic i64 0, ptr @waiting seq_cst, align 8
  call i32 @pthread_mutex_unlock(ptr @lock)
  br label %end
end:
  ret void
}}

; Pause, and say whether a thread that began to spin then has spun for long enough.
define internal i1 @spun(i64 %begin) {{
  call void @pause()
  %t = call i64 @now()
  %spent = sub i64 %t, %begin
  %enough = icmp ugt i64 %spent, $SPIN
  ret i1 %enough
}}

define internal i1 @have_left(i64 %joined) {{
  %count = load atomic i64, ptr @left seq_cst, align 8
  %all = icmp eq i64 %count, %joined
  ret i1 %all
}}

define internal ptr @worker(ptr %nothing) {{
start:
  br label %forever
forever:
  %begin = call i64 @now()
  br label %ask
ask:
  %free = load atomic i64, ptr @gate seq_cst, align 8
  %open = icmp sgt i64 %free, 0
  br i1 %open, label %take, label %closed
take:
  %less = sub i64 %free, 1
  %pair = cmpxchg ptr @gate, i64 %free, i64 %less seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %join, label %ask
join:
  call void @share(i64 %free)
  atomicrmw add ptr @left, i64 1 seq_cst
  %waits = load atomic i64, ptr @waiting seq_cst, align 8
  %asleep = icmp ne i64 %waits, 0
  br i1 %asleep, label %tell, label %forever
tell:
  call i32 @pthread_mutex_lock(ptr @lock)
  call i32 @pthread_cond_signal(ptr @ended)
  call i32 @pthread_mutex_unlock(ptr @lock)
  br label %forever
closed:
  %enough = call i1 @spun(i64 %begin)
  br i1 %enough, label %sleep, label %ask
sleep:
  call i32 @pthread_mutex_lock(ptr @lock)
  atomicrmw add ptr @sleeping, i64 1 seq_cst
  br label %look
look:
  %seats = load atomic i64, ptr @gate seq_cst, align 8
  %some = icmp sgt i64 %seats, 0
  br i1 %some, label %awake, label %wait
wait:
  call i32 @pthread_cond_wait(ptr @opened, ptr @lock)
  br label %look
awake:
  atomicrmw sub ptr @sleeping, i64 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr @lock)
  br label %forever
}}

define i32 @start() {{
  %id = alloca i64
  %failed = call i32 @pthread_create(ptr %id, ptr null, ptr @worker, ptr null)
  %well = icmp eq i32 %failed, 0
  br i1 %well, label %detach, label %end
detach:
  %thread = load i64, ptr %id
  call i32 @pthread_detach(i64 %thread)
  br label %end
end:
  ret i32 %failed
}}

define void @renew() {{
  call i32 @pthread_mutex_init(ptr @lock, ptr null)
  call i32 @pthread_cond_init(ptr @opened, ptr null)
  call i32 @pthread_cond_init(ptr @ended, ptr null)
  store i64 0, ptr @busy
  store i64 0, ptr @gate
  store i64 0, ptr @left
  store i64 0, ptr @sleeping
  store i64 0, ptr @waiting
  ret void
}}
"""
