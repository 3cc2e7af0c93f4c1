"""Bugs to plant, one at a time, each with the test that has to find it."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A text of a production file, the text that replaces it, and the test that must fail then."""

    file: str
    before: str
    after: str
    killer: str


_ENTRY, _FINDING, _TABLE = "history/entry.py", "triggers/pipeline/finding.py", "triggers/detection/table.py"
_TURNS = "tests/unit/history/test_entry.py"
_TICKETS = "tests/scenarios/test_tickets_of_others.py"
_ROWS = "tests/unit/triggers/detection/test_detection.py"

_CLAIM = "history/redis/lua/turning/claiming_each.lua"
_FORGET = "history/redis/lua/entries/forget.lua"
_RENEW = "history/redis/lua/entries/renew.lua"
_SETTLE = "history/redis/lua/turning/settling_each.lua"
_TAKE_OVER = "history/redis/lua/entries/take_over.lua"
_RECORDS = "history/redis/lua/shared/records.lua"
_FLIGHT = "history/redis/lua/shared/flight.lua"
_LIVE = "history/redis/lua/shared/live.lua"
_SHOW = "history/redis/lua/shared/show.lua"
_SETTLING = "history/redis/lua/shared/settling.lua"
_SLICES = "history/redis/lua/shared/slices.lua"
_CONTROL, _OVERTAKEN = "history/beside/control.py", "tests/unit/history/test_control.py"
_SQL = "history/sql/statements/entries.py"
_SQL_RECORDS = "history/sql/statements/records.py"
_TRANSACTION = "history/sql/transaction.py"
_EXECUTION = "triggers/pipeline/execution.py"
_JUDGE = "triggers/pipeline/judge.py"
_PIPELINE = "triggers/pipeline/pipeline.py"
_TURN = "triggers/pipeline/sharing/turn.py"
_UNDECIDED = "triggers/pipeline/undecided.py"
_COMPLETION = "triggers/pipeline/completion.py"
_ENDS = "tests/unit/triggers/pipeline/test_completion.py"
_REWOUND = "tests/unit/triggers/pipeline/test_rewound.py"
_PACE = "triggers/pipeline/sharing/pace.py"
_RIDERS = "history/sql/database/riders.py"
_SQLJMS = "triggers/providers/sqljms/statements.py"
_PACK = "history/redis/lua/entries/pack.lua"
_PURGE = "history/redis/lua/entries/purge.lua"
_CLAIM_BATCH = "history/redis/lua/entries/claim_batch.lua"
_HEAD = "history/redis/lua/shared/head.lua"
_META = "history/redis/lua/shared/meta.lua"
_VALUE = "history/redis/lua/buckets/value.lua"
_FORMS = "history/redis/lua/buckets/forms.lua"
_INSERT = "history/redis/lua/shared/insert.lua"
_TURNING = "history/redis/lua/turning/turn.lua"
_REDIS_TURNS = "tests/integration/history/redis/test_redis_turns.py"
_OFFSETS = "history/sql/offsets/history.py"
_TWO_OFFSETS = "tests/integration/history/sql/test_offset_history.py"
_SENDS = "tests/unit/triggers/producer/test_sends.py"
_SENDS_INSIDE = "tests/integration/pipeline/test_sends_inside.py"
_PACKED = "tests/integration/history/redis/test_redis_packed.py"
_STORES = "tests/contract/test_history_stores.py::TestHistoryStores"
_BESIDE, _JOINING = "tests/contract/test_history_stores.py::TestKeptBeside", "history/beside/joining.py"
_EXPIRED = f"{_STORES}::test_what_has_expired_is_claimed_from_then_on_and_never_earlier[redis]"

MUTANTS = (
    Mutant(
        _ENTRY,
        "    if entry.state is State.COMPLETED and not (failed and",
        "    if entry.state is State.COMPLETED and (failed and",
        f"{_TICKETS}::test_powertools_typescript_5714",
    ),
    Mutant(
        _ENTRY,
        "    if outcome is None:\n        return None, True\n",
        "    if outcome is None:\n        return entry, True\n",
        f"{_TICKETS}::test_pulsar_5218",
    ),
    Mutant(
        _ENTRY, "entry is None or entry.expires_at <= now", "entry is None or entry.expires_at < now", _TURNS
    ),
    Mutant(_ENTRY, "if entry.read_at == now:", "if entry.read_at:", _TURNS),
    Mutant(
        _ENTRY,
        "lease_until=None if terms.lease is None else now + terms.lease",
        "lease_until=None",
        f"{_TICKETS}::test_powertools_typescript_5675",
    ),
    Mutant(_ENTRY, "expires_at=now + terms.time_to_live", "expires_at=now + 2 * terms.time_to_live", _TURNS),
    Mutant(
        _ENTRY,
        "return entry.fence == fence and owner in {None, entry.owner}",
        "return True",
        f"{_STORES}::test_a_late_worker_changes_nothing[memory]",
    ),
    Mutant(
        _ENTRY,
        "    if entry.fence != fence:\n        return entry, False\n",
        "",
        f"{_STORES}::test_a_late_worker_changes_nothing_of_what_its_successor_completed[memory]",
    ),
    Mutant(
        _ENTRY,
        "return entry, entry.outcome == outcome and not once",
        "return entry, not once",
        f"{_STORES}::test_what_is_completed_stays_as_it_is[memory]",
    ),
    Mutant(
        _ENTRY,
        "return None, outcome is None and not once",
        "return None, not once",
        f"{_STORES}::test_what_is_absent_cannot_be_completed_or_renewed[memory]",
    ),
    Mutant(
        _ENTRY,
        "state=State.COMPLETED, outcome=outcome, lease_until=None), True",
        "state=State.COMPLETED, outcome=outcome), True",
        _TURNS,
    ),
    Mutant(
        _ENTRY, "    if entry.batch and least > entry.expires_at:\n        return entry, False\n", "", _TURNS
    ),
    Mutant(
        _ENTRY, "expires_at=max(entry.expires_at, least)), True", "expires_at=entry.expires_at), True", _TURNS
    ),
    Mutant(
        _ENTRY,
        "    return entry, Claim(entry, entry.fence)\n",
        "    return entry, Claim(None, fence)\n",
        f"{_STORES}::test_another_owner_finds_the_started_entry[memory]",
    ),
    Mutant(
        _FINDING,
        "Found.IN_PROGRESS if entry.lease_alive else Found.STARTED",
        "Found.STARTED",
        f"{_TICKETS}::test_powertools_typescript_5675",
    ),
    Mutant(
        _FINDING,
        "Found.IN_PROGRESS if entry.lease_alive else Found.STARTED",
        "Found.IN_PROGRESS",
        f"{_TICKETS}::test_taskiq_redis_131",
    ),
    Mutant(
        _FINDING,
        "Found.IN_PROGRESS if entry.lease_alive else Found.STARTED",
        "Found.NOTHING",
        f"{_TICKETS}::test_powertools_python_8386",
    ),
    Mutant(_TABLE, "(self.counts is None or facts.count in self.counts)", "True", _ROWS),
    Mutant(_TABLE, "and (self.history is None or facts.history in self.history)", "", _ROWS),
    Mutant(_TABLE, "and (self.found is None or facts.found in self.found)", "", _ROWS),
    Mutant(_TABLE, "and (self.words is None or facts.word in self.words)", "", _ROWS),
    Mutant(_TABLE, "and all(getattr(policy, name) == value", "and any(getattr(policy, name) == value", _ROWS),
    Mutant(
        _SETTLE,
        "reply[i] = expires > now and held ~= fence and '0' or '?'",
        "reply[i] = expires > now and held ~= fence and '1' or '?'",
        f"{_STORES}::test_a_late_worker_changes_nothing[redis]",
    ),
    Mutant(
        _SETTLE,
        "if fits or asked == 'R' then gone[#gone + 1], reply[i] = digest, '1' end",
        "if fits or asked == 'R' then reply[i] = '1' end",
        f"{_STORES}::test_a_settlement_sent_twice_succeeds_twice[redis]",
    ),
    Mutant(
        _SETTLE,
        "then held = nil end",
        "then held = fence end",
        f"{_STORES}::test_who_holds_the_same_fence_twice_is_told_apart[redis]",
    ),
    Mutant(_CLAIM, "lease < 0 and 0 or now + lease", "0", f"{_STORES}::test_a_lease_ends[redis]"),
    Mutant(
        _CLAIM,
        "last_fence = last_fence + 1",
        "last_fence = last_fence + 0",
        f"{_STORES}::test_the_fence_grows_with_every_claim_of_a_uuid[redis]",
    ),
    Mutant(
        _CLAIM,
        "if known > last_fence then",
        "if false then",
        f"{_STORES}::test_fences_go_on_above_those_that_were_granted_and_forgotten[redis]",
    ),
    Mutant(
        _TAKE_OVER,
        "if not is_held(entry, tonumber(ARGV[2]), ARGV[4]) then return -1 end",
        "",
        f"{_STORES}::test_of_two_that_take_over_one_succeeds[redis]",
    ),
    Mutant(
        _TAKE_OVER,
        "not (entry.state == 'F' and ARGV[5] == 'failed')",
        "not (entry.state == 'F')",
        f"{_STORES}::test_a_failed_entry_is_taken_over_where_that_is_asked_for[redis]",
    ),
    Mutant(
        _TAKE_OVER,
        "entry.state == 'S' and not entry.batch and entry.owner == owner",
        "false",
        f"{_STORES}::test_taking_over_twice_with_one_token_is_idempotent[redis]",
    ),
    Mutant(
        _RENEW,
        "entry.state ~= 'S' or not is_held(entry, fence, owner)",
        "entry.state ~= 'S'",
        f"{_STORES}::test_an_owner_changes_nothing_of_what_another_holds_under_its_fence[redis]",
    ),
    Mutant(
        _RENEW,
        "entry.expires = entry.started + life",
        "",
        f"{_STORES}::test_an_entry_whose_lease_is_renewed_outlives_its_time_to_live[redis]",
    ),
    Mutant(
        _FORGET,
        "  redis.call('HDEL', KEYS[1], digest)",
        "",
        f"{_STORES}::test_what_is_forgotten_takes_its_records_along[redis]",
    ),
    Mutant(
        _SLICES,
        "begins + 3 * length + 1000",
        "begins + 2 * length",
        f"{_STORES}::test_purge_removes_only_what_has_expired[redis]",
    ),
    Mutant(
        _SLICES,
        "% (power * 2) == added",
        "% (power * 2) ~= added",
        f"{_STORES}::test_a_scan_meets_everything_once[redis]",
    ),
    Mutant(
        _HEAD,
        "local SHORT = 10 ",
        "local SHORT = 9 ",
        f"{_PACKED}::test_digests_that_differ_in_their_tenth_byte_are_two",
    ),
    Mutant(_META, "layout ~= LAYOUT or ", "", f"{_PACKED}::test_data_of_another_layout_are_refused"),
    Mutant(
        _SETTLE,
        "string.byte(meta) ~= LAYOUT",
        "false",
        f"{_PACKED}::test_data_of_another_layout_are_refused",
    ),
    Mutant(
        _SETTLE,
        "fits = type(added) == 'number'",
        "fits = true",
        f"{_PACKED}::test_entries_are_written_with_a_field_meta_from_before_the_packing",
    ),
    Mutant(
        _VALUE,
        "if sub(entry, 1, SHORT - 1) == sub(short, 1, SHORT - 1) then",
        "if true then",
        f"{_PACKED}::test_entries_with_the_same_tag_are_told_apart",
    ),
    Mutant(
        _VALUE,
        "    at = locate(head, tag, at + 1, true)\n",
        "    at = nil\n",
        f"{_PACKED}::test_entries_with_the_same_tag_are_told_apart",
    ),
    Mutant(
        _VALUE,
        " and at <= count + TAGS do",
        " do",
        f"{_PACKED}::test_a_tag_counts_only_among_the_tags",
    ),
    Mutant(
        _VALUE,
        "text('%d', count + TAGS - 1)",
        "HEAD",
        f"{_PACKED}::test_a_bucket_with_more_tags_than_are_read_at_first_is_searched_completely",
    ),
    Mutant(
        _VALUE,
        "  if count + TAGS > #head then error('BROKEN ' .. searched, 0) end\n",
        "",
        f"{_PACKED}::test_a_packed_bucket_without_all_tags_is_an_error",
    ),
    Mutant(
        _VALUE,
        "    if #entry < REST then error('BROKEN ' .. searched, 0) end\n",
        "",
        f"{_PACKED}::test_an_entry_of_a_packed_bucket_that_was_cut_off_is_never_absent",
    ),
    Mutant(
        _VALUE,
        "call('EXISTS', searched) == 0 then head = nil",
        "true then head = nil",
        f"{_PACKED}::test_a_packed_bucket_without_all_tags_is_an_error",
    ),
    Mutant(
        _VALUE,
        "if head == '' and call('EXISTS', searched) == 0 then head = nil end",
        "if head == '' then head = '\\0\\0\\0' end",
        f"{_PACKED}::test_a_lost_packed_bucket_is_an_error_and_not_begun_again",
    ),
    Mutant(
        _VALUE,
        " or not head and call('HEXISTS', searched, '') == 0",
        "",
        f"{_PACKED}::test_a_hash_that_others_began_in_place_of_a_packed_bucket_is_an_error",
    ),
    Mutant(
        _VALUE,
        "if type(head or value) == 'table' then\n  if not",
        "if head and type(head) == 'table' then\n  if not",
        f"{_PACKED}::test_entries_are_found_with_a_field_meta_from_before_the_packing",
    ),
    Mutant(
        _FORMS,
        "if #text ~= TAGS + count * (1 + REST) then",
        "if false then",
        f"{_PACKED}::test_an_entry_of_a_packed_bucket_that_was_cut_off_is_never_absent",
    ),
    Mutant(
        _FORMS,
        "if not count or redis.call('STRLEN', key) ~= TAGS + count * (1 + REST) then",
        "if not count then",
        f"{_PACKED}::test_a_packed_bucket_with_more_than_its_entries_is_not_written",
    ),
    Mutant(
        _FORMS,
        "redis.call('SET', key, text, 'KEEPTTL')",
        "redis.call('SET', key, text)",
        f"{_PACKED}::test_a_packed_bucket_expires_with_its_slice",
    ),
    Mutant(
        _FORMS,
        "if not gone[content[i]] then",
        "if true then",
        f"{_PACKED}::test_entries_of_packed_buckets_can_be_changed",
    ),
    Mutant(
        _FORMS,
        "for i = 1, #all, 2 do places[all[i]] = i end\n",
        "\n",
        f"{_PACKED}::test_entries_of_packed_buckets_can_be_changed",
    ),
    Mutant(
        _INSERT,
        "if insert_into and is_packed(target) then",
        "if insert_into then",
        f"{_PACKED}::test_a_lost_packed_bucket_is_an_error_and_not_begun_again",
    ),
    Mutant(
        _CLAIM_BATCH,
        "try('HSETNX', ",
        "call('HSETNX', ",
        f"{_PACKED}::test_entries_are_written_with_a_field_meta_from_before_the_packing",
    ),
    Mutant(
        _PACK,
        "begins + length + length / YOUNG <= now",
        "true",
        f"{_PACKED}::test_a_slice_is_packed_only_after_its_end",
    ),
    Mutant(
        _PACK,
        "if #content[i] ~= 5 then",
        "if false then",
        f"{_PACKED}::test_an_entry_that_cannot_be_read_stays_in_doubt",
    ),
    Mutant(
        _PACK,
        " or redis.call('HLEN', key) > LARGEST",
        "",
        f"{_PACKED}::test_a_bucket_that_is_too_large_to_be_packed_stays_a_hash_and_answers",
    ),
    Mutant(
        _PACK,
        "  if whole then write_packed",
        "  if true then write_packed",
        f"{_PACKED}::test_a_bucket_that_is_lost_before_it_is_packed_stays_lost",
    ),
    Mutant(
        _PURGE,
        "#gone * 8 >= #content or not is_packed(key)",
        "true",
        f"{_PACKED}::test_few_expired_entries_of_a_packed_bucket_wait_for_more",
    ),
    Mutant(_FLIGHT, "struct.unpack('>I8', record, 25) > now", "true", _EXPIRED),
    Mutant(_SHOW, "latest + 2 * length > now", "true", _EXPIRED),
    Mutant(_SHOW, "struct.unpack('>I8', record, 26) > now", "true", _EXPIRED),
    Mutant(_LIVE, "begins + 3 * length > now", "begins + 2 * length > now", _EXPIRED),
    Mutant(
        _SETTLING,
        "entry.state == asked and '1' or '0'",
        "'1' or '0'",
        f"{_STORES}::test_a_uuid_settled_twice_in_one_call_is_settled_in_order[redis]",
    ),
    Mutant(
        _SETTLING,
        "if not is_held(entry, fence, owner) then return '0' end",
        "",
        f"{_BESIDE}::test_another_owner_of_the_same_fence_is_left_alone[redis]",
    ),
    Mutant(
        _RECORDS,
        "if not (each or made) then return held, false end",
        "",
        f"{_STORES}::test_of_a_step_with_one_refused_change_nothing_is_made[redis-alone]",
    ),
    Mutant(
        _SQL_RECORDS,
        "NOT {lived} OR r.version <= excluded.version",
        "TRUE",
        f"{_STORES}::test_a_record_that_is_not_as_expected_stays[sqlite-alone]",
    ),
    Mutant(
        _SQL_RECORDS,
        "AND (r.version = w.version - 1 OR",
        "AND (TRUE OR",
        f"{_STORES}::test_of_a_step_with_one_refused_change_nothing_is_made[sqlite-listed]",
    ),
    Mutant(
        _RECORDS,
        "is_less(ARGV[at + 5], version)",
        "false",
        f"{_STORES}::test_a_record_that_is_not_as_expected_stays[redis-alone]",
    ),
    Mutant(
        _CONTROL,
        "Expects.ANY if stored is not None and not version else Expects.FOLLOWS",
        "Expects.ANY",
        f"{_OVERTAKEN}::test_a_sweep_brings_no_counts_back_that_were_cleared_before_its_step",
    ),
    Mutant(
        "history/beside/firsts.py",
        "mine + uuid4().bytes",
        "mine",
        f"{_BESIDE}::test_the_first_that_asks_again_has_no_more_time[memory]",
    ),
    Mutant(
        "history/redis/lua/records/view.lua",
        "do reply[index + 1]",
        "do reply[2]",
        f"{_STORES}::test_a_view_has_all_records_of_some_kinds[redis]",
    ),
    Mutant(
        "history/beside/parking.py",
        'if document["decision"]["token"] == token:',
        "if False:",
        f"{_BESIDE}::test_a_decision_that_is_sent_twice_is_carried_out_once[memory]",
    ),
    Mutant(
        _RECORDS,
        "held[index] == '' or required ~= 'any' and required ~= version",
        "required ~= 'any' and required ~= version",
        f"{_BESIDE}::test_what_is_not_parked_any_more_is_not_settled[redis]",
    ),
    Mutant(
        _JOINING,
        "[Get(DUE, before.due_key, required=True)]",
        "[]",
        f"{_BESIDE}::test_a_step_for_a_former_period_does_not_change_the_next[memory-last]",
    ),
    Mutant(
        _JOINING,
        "required=True, version=self.version",
        "required=True",
        f"{_BESIDE}::test_a_part_that_is_replaced_meanwhile_is_joined_as_it_is_then[memory]",
    ),
    Mutant(
        _JOINING,
        "once=True",
        "once=False",
        f"{_BESIDE}::test_what_was_joined_and_finished_is_not_added_again[memory]",
    ),
    Mutant(
        "history/redis/lua/records/settle.lua",
        "if answer == '0' then refused = true end",
        "",
        f"{_STORES}::test_a_refused_settlement_refuses_the_step[redis-alone]",
    ),
    Mutant(
        "history/redis/lua/records/settle.lua",
        "if answer and asked ~= wish then answer = '0' end",
        "",
        f"{_STORES}::test_an_entry_is_settled_once_if_the_step_asks_for_it[redis]",
    ),
    Mutant(
        "history/sql/records.py",
        "await execute(connection, UNDO)",
        "pass",
        f"{_STORES}::test_a_refused_settlement_refuses_the_step[sqlite-alone]",
    ),
    Mutant(
        _SQL,
        "AND h.expires_at > clock.now\n      AND ((h.owner IS NULL OR",
        "AND ((h.owner IS NULL OR",
        f"{_STORES}::test_a_started_entry_is_absent_once_its_time_to_live_is_over[sqlite]",
    ),
    Mutant(
        _SQL,
        "AND h.fence = :expected_fence\n",
        "\n",
        f"{_STORES}::test_of_two_that_take_over_one_succeeds[sqlite]",
    ),
    Mutant(
        _SQL,
        "(excluded.owner IS NULL OR excluded.owner = {owner})",
        "TRUE",
        f"{_STORES}::test_an_owner_changes_nothing_of_what_another_holds_under_its_fence[sqlite]",
    ),
    Mutant(
        _SQL,
        "AND h.owner = COALESCE(excluded.owner, h.owner)\n",
        "\n",
        f"{_STORES}::test_an_owner_changes_nothing_of_what_another_holds_under_its_fence[sqlite]",
    ),
    Mutant(
        _SQL,
        "THEN 2 * excluded.lease_until - h.started_at ELSE h.expires_at END",
        "THEN h.expires_at ELSE h.expires_at END",
        f"{_STORES}::test_an_entry_whose_lease_is_renewed_outlives_its_time_to_live[sqlite]",
    ),
    Mutant(
        _SQL,
        "AND (state = 'completed' OR expires_at <= {now})",
        "AND {now} > 0",
        "tests/integration/history/sql/test_batches_opened_at_once.py",
    ),
    Mutant(
        _UNDECIDED,
        "return entry.owner in self._tokens.get(uuid, ())",
        "return True",
        "tests/unit/triggers/pipeline/test_undecided.py::test_the_oldest_is_forgotten_first",
    ),
    Mutant(
        _JUDGE,
        "if not decision.runs or run.finding.found is None or await self._take_over(run):",
        "if not decision.runs or run.finding.found is None or True:",
        (
            "tests/unit/triggers/operations/test_running.py::TestInDoubt::"
            "test_it_runs_under_a_new_fence_and_its_copy_is_removed"
        ),
    ),
    Mutant(
        _PIPELINE,
        "        elif len(runs) > 1:\n",
        "        elif False:\n",
        (
            "tests/integration/pipeline/test_atomic_sharing.py::"
            "test_where_the_common_transaction_fails_each_has_one_of_its_own"
        ),
    ),
    Mutant(
        _EXECUTION,
        "            await transaction.undo()\n",
        "            pass\n",
        "tests/integration/pipeline/test_atomic_sharing.py::test_what_one_did_is_undone_alone[sqlite]",
    ),
    Mutant(
        _TURN,
        "claim.found is None or claim.found.state is State.COMPLETED",
        "True",
        (
            "tests/integration/consumer/test_turns.py::"
            "test_a_copy_right_behind_its_original_is_a_duplicate_at_once[blocking-leased]"
        ),
    ),
    Mutant(
        _TURN,
        (
            "        ahead, self._ahead = self._ahead, None\n"
            "        self._current = self._following = None\n"
            "        if ahead is None or ahead.claim.found is not None:\n"
            "            return\n"
        ),
        "        return\n",
        (
            "tests/integration/consumer/test_turns.py::"
            "test_the_claim_of_a_message_that_is_not_begun_is_released[blocking]"
        ),
    ),
    Mutant(
        _TRANSACTION,
        "            await execute(self.connection, UNDO)\n",
        "            pass\n",
        (
            "tests/integration/pipeline/test_atomic_triggers.py::TestTogether::"
            "test_a_session_commits_no_further_than_its_savepoint[sqlite]"
        ),
    ),
    Mutant(
        _TRANSACTION,
        'raise if_settings_worked(database.engine, uncommitted(error), "committing") from error',
        "pass",
        (
            "tests/integration/pipeline/test_atomic_sharing.py::"
            "test_where_the_common_transaction_fails_each_has_one_of_its_own"
        ),
    ),
    Mutant(
        _UNDECIDED,
        "if entry is not None and self.is_ours(uuid, entry)",
        "if entry is not None",
        "tests/unit/triggers/pipeline/test_undecided.py::test_what_somebody_else_runs_is_not_released",
    ),
    Mutant(
        _SLICES,
        "if begins + 3 * length > now then kept",
        "if begins + 2 * length > now then kept",
        (
            "tests/integration/history/redis/test_redis_slice_ends.py::"
            "test_an_entry_is_found_until_the_end_of_its_slice"
        ),
    ),
    Mutant(
        _CLAIM,
        "  --include shared/there\n",
        "",
        (
            "tests/integration/history/redis/test_redis_losses.py::"
            "TestALostBucket::test_what_stood_there_is_not_new"
        ),
    ),
    Mutant(_PACE, "if seconds > LONGEST:", "if False:", "tests/unit/triggers/pipeline/test_pace.py"),
    Mutant(_PACE, "and monotonic() >= self._rests_until", "", "tests/unit/triggers/pipeline/test_pace.py"),
    Mutant(
        _RIDERS,
        "for text in riders.texts(before):\n                carrier.execute(text)",
        "for text in []:\n                carrier.execute(text)",
        (
            "tests/integration/pipeline/test_atomic_round_trips.py::test_a_lone_message_waits_for_three_answers"
        ),
    ),
    Mutant(
        _SQL,
        "    SELECT 1 / CAST(COUNT(*)",
        "    SELECT 1 + CAST(COUNT(*)",
        (
            "tests/integration/pipeline/test_atomic_round_trips.py::"
            "test_where_an_entry_cannot_be_completed_nothing_is_committed"
        ),
    ),
    Mutant(
        _SQLJMS,
        "    SELECT sqrt(CAST(COUNT(*) - cardinality",
        "    SELECT abs(CAST(COUNT(*) - cardinality",
        (
            "tests/integration/pipeline/test_atomic_round_trips.py::"
            "test_where_a_message_was_given_to_somebody_else_meanwhile_nothing_is_committed"
        ),
    ),
    Mutant(_TURNING, "if ended and ended == ARGV[4] then", "if false then", _REDIS_TURNS),
    Mutant(_TURNING, "if ended then redis.call('HDEL', KEYS[1], ended) end", "", _REDIS_TURNS),
    Mutant(
        _TURNING,
        "(settled == '-' or settled == '1')",
        "true",
        (
            "tests/integration/consumer/test_turns.py::"
            "test_a_run_that_lost_its_fence_is_not_acknowledged_by_its_turn[blocking]"
        ),
    ),
    Mutant(
        _PIPELINE,
        "elif kept := [run for run in unsettled if run.end is not None and run.end.error is None]:",
        "elif kept := []:",
        (
            "tests/integration/pipeline/test_trigger_outages.py::"
            "TestHistoryGoesAway::test_a_success_that_cannot_be_recorded_is_parked_acknowledged_and_never_run_again[blocking-redis]"
        ),
    ),
    Mutant(
        _OFFSETS,
        "any(position.has(offset) for offset in offsets)",
        "any(position.has(offset) for offset in offsets[:0])",
        f"{_TWO_OFFSETS}::test_of_two_consumers_that_have_a_message_the_second_commits_nothing[sqlite]",
    ),
    Mutant(
        "history/sql/offsets/seen.py",
        "went_back = next_offset is None or next_offset < self._reached.get(partition, 0)",
        "went_back = next_offset is None",
        f"{_TWO_OFFSETS}::test_nothing_is_stored_in_a_row_that_has_gone_back",
    ),
    Mutant(
        "triggers/providers/kafka/connection.py",
        "driver.TopicPartition(self._topic, number, partition.position.next_offset)",
        "driver.TopicPartition(self._topic, number, partition.position.next_offset + 1)",
        (
            "tests/integration/providers/kafka/test_kafka_offsets.py::"
            "TestWhereItBegins::test_it_begins_at_the_row_whatever_kafka_has[mock-blocking-sqlite-0]"
        ),
    ),
    Mutant(
        "history/sql/database/turns.py",
        "if at_once or (not self._places and not _is_full(pool)):",
        "if True:",
        "tests/integration/history/sql/test_turns.py::test_threads_take_turns[sqlite]",
    ),
    Mutant(
        "history/sql/database/turns.py",
        "if at_once or (not self._places and not _is_full(pool)):",
        "if at_once or not _is_full(pool):",
        "tests/integration/history/sql/test_turns.py::test_threads_take_turns[sqlite]",
    ),
    Mutant(
        _PIPELINE,
        "(run.claimed or run.holds) and run.is_kept]",
        "(run.claimed or run.holds)]",
        f"{_ENDS}::test_a_failure_that_nothing_can_keep_is_not_settled",
    ),
    Mutant(
        _COMPLETION,
        "run.acknowledge = run.acknowledge and await self._record_anew(store, run, uuid)",
        "await self._record_anew(store, run, uuid)",
        f"{_ENDS}::test_an_end_that_the_history_forgot_is_acknowledged_if_it_is_recorded_anew",
    ),
    Mutant(
        _TRANSACTION,
        "return all(await self.history.settle(trigger, settlements))",
        "return bool([await self.history.settle(trigger, settlements)])",
        "tests/integration/pipeline/test_atomic_misuse.py"
        "::test_nothing_is_committed_over_the_claim_of_another_owner",
    ),
    Mutant(
        _PIPELINE,
        "is Answer.ACKNOWLEDGE and not run.parks and not run.raises_event",
        "is Answer.ACKNOWLEDGE",
        "tests/integration/providers/sqljms/test_sqljms_unparked.py",
    ),
    Mutant(
        _JUDGE,
        "                expected_owner=entry.owner,\n",
        "",
        f"{_REWOUND}::test_an_entry_of_another_owner_is_not_taken_over_under_the_fence_of_the_one_that_was_seen",
    ),
    Mutant(
        "triggers/pipeline/leases.py",
        "(entry.is_of(fence) and entry.owner in {None, owner})",
        "entry.is_of(fence)",
        f"{_REWOUND}::test_a_run_whose_fence_another_has_is_told_that_its_lease_is_lost",
    ),
    Mutant(
        "triggers/pipeline/parking/decisions.py",
        "plan.add(uuid, taken, owner, EntryOutcome.FAILED)",
        "plan.add(uuid, taken, owner, None)",
        "tests/unit/triggers/pipeline/parking/test_decisions.py",
    ),
    Mutant(
        "triggers/providers/outgoing.py",
        "return str(uuid4()) if sends is None else sends.fresh_uuid()",
        "return str(uuid4())",
        f"{_SENDS}::test_uuids_follow_from_the_delivery_and_the_number",
    ),
    Mutant(
        "triggers/providers/outgoing.py",
        "return None if sends is None or sends.over else sends",
        "return sends",
        f"{_SENDS}::test_a_task_that_outlives_its_service_sends_immediately",
    ),
    Mutant(
        "triggers/producer/producer.py",
        "        if sends is None:\n",
        "        if True:\n",
        f"{_SENDS}::test_each_way_to_send_follows_the_run[send]",
    ),
    Mutant(
        "triggers/producer/producer.py",
        "sends.at_end(partial(self._end, blocking=sends.blocking))",
        "pass",
        "tests/integration/producer/test_sends_of_services.py"
        "::test_a_producer_that_a_service_closed_has_no_connection_afterwards",
    ),
    Mutant(
        "triggers/producer/sender.py",
        "if connection is None or here is None or not await _is_in(connection, here):",
        "if True:",
        f"{_SENDS_INSIDE}::test_a_message_is_sent_when_the_effect_is_committed",
    ),
    Mutant(
        _EXECUTION,
        "await transaction.flush()",
        "pass",
        f"{_SENDS_INSIDE}::test_nothing_leaves_if_the_changes_in_the_session_are_not_kept",
    ),
)
