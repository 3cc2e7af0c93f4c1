"""Tokens of attempts and processes are unique, even if a process is cloned."""

import os
import re
import subprocess
import sys

from history.contract.common import tokens_of_clones
from history.store.owners import owner_token, process_token
from triggers.consumer.options import default_consumer_name


def test_each_attempt_has_a_token_of_its_own() -> None:
    tokens = {owner_token() for _ in range(10_000)}

    assert len(tokens) == 10_000


def test_a_token_names_the_process() -> None:
    assert f":{os.getpid()}:" in owner_token()
    assert f":{os.getpid()}:" in process_token()


def test_clones_of_a_process_have_tokens_of_their_own() -> None:
    mine, theirs = tokens_of_clones()

    assert mine != theirs
    assert re.search(r":1:", mine), "each clone has process id 1"


def test_a_process_has_one_token_and_a_forked_child_another() -> None:
    script = """
import os
from history.store.owners import process_token
before = process_token()
if os.fork() == 0:
    print(before == process_token(), flush=True)
    os._exit(0)
os.wait()
print(before == process_token())
"""

    told = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)

    assert told.stdout.split() == ["False", "True"]


def test_consumers_that_start_at_once_have_names_of_their_own() -> None:
    assert len({default_consumer_name() for _ in range(1000)}) == 1000
