"""Threads of a process that has just begun read the log at the same moment, and it lives."""

import subprocess
import sys

PROGRAM = """
import os, sys, threading
from steptrail.domain.agent import events
from steptrail.domain.flow import events as flow_events
from steptrail.domain.kernel.event import EVENT_TYPES
from steptrail.infrastructure.store.core.codec import decode_state

# The field that is known last, and read first.
FIELDS = {name: kind.__struct_encode_fields__ for name, kind in EVENT_TYPES.items()}
LAST = {name: b'{"%s":null}' % fields[-1].encode() for name, fields in FIELDS.items() if fields}

def read(begin):
    begin.wait()
    for name, state in LAST.items():
        try:
            decode_state(name, state)
        except ValueError:
            pass

died = 0
for _ in range(int(sys.argv[1])):
    child = os.fork()
    if not child:
        sys.setswitchinterval(1e-6)
        begin = threading.Barrier(4)
        threads = [threading.Thread(target=read, args=(begin,)) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        os._exit(0)
    died += os.waitpid(child, 0)[1] != 0
print(died)
"""


FORKING = """
import os, threading, time
from steptrail.domain import readable as module
from steptrail.domain.agent.events import ExecutionStarted

looks = threading.Event()

really = module.msgspec.json.Decoder

def decoder(kind):
    looks.set()
    time.sleep(0.2)
    return really(kind)

module.msgspec.json.Decoder = decoder
threading.Thread(target=module.readable, args=(ExecutionStarted,)).start()
looks.wait()
child = os.fork()
if not child:
    module.msgspec.json.Decoder = really
    module.readable(ExecutionStarted)
    os._exit(0 if ExecutionStarted in module._known else 3)
print(os.waitpid(child, 0)[1])
"""


def test_threads_that_read_the_same_classes_for_the_first_time_do_not_kill_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, "30"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0", done.stderr


def test_a_process_that_is_forked_while_a_thread_looks_into_a_class_reads_it_too() -> None:
    done = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "0", done.stderr
