"""The receiving end: cases that the vectors leave out."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from history.errors import ConfigurationError
from history.store.watermark import Epoch, Offset
from tests.unit.triggers.providers.sqlremote.bench import (
    AB,
    BC,
    CD,
    EPOCH,
    MINUTE,
    NOW,
    A,
    B,
    Bench,
    C,
    D,
    message,
    only,
)
from triggers.providers.sqlremote.protocol import subscriber as sub
from triggers.providers.sqlremote.protocol.header import Header
from triggers.providers.sqlremote.protocol.inbox import DeleteMessages, SubscriberSettings
from triggers.providers.sqlremote.protocol.packet import LinkReport, Packet
from triggers.providers.sqlremote.protocol.parts import DIGEST_SIZE, PacketRecord, split
from triggers.providers.sqlremote.protocol.publisher import PublisherSettings
from triggers.providers.sqlremote.protocol.verdicts import Verdict, classify

REQUEST = LinkReport(EPOCH, A, 1, asking=True)


def control(log_sent: Offset, *, resend_count: int = 0, probe: bool = False, epoch: Epoch = EPOCH) -> Packet:
    return Packet(Header(resend_count, log_sent, log_sent, 0), epoch, probe=probe)


def parts_of_d(data: bytes, room: int = 20, resend_count: int = 0) -> list[Packet]:
    """D, cut into parts, after C."""
    chunks = split(data, room)
    ends = [C] * (len(chunks) - 1) + [D]
    return [
        Packet(Header(resend_count, C, end, sequence), EPOCH, (PacketRecord(D, chunk),))
        for sequence, (chunk, end) in enumerate(zip(chunks, ends, strict=True))
    ]


VERDICTS = {
    "a first part before L": ("(0-0000923200-0000923200-0)", Verdict.DUPLICATE),
    "a middle part before L": ("(0-0000923200-0000923200-4)", Verdict.DUPLICATE),
    "a whole one up to L": ("(0-0000923200-0000923357-0)", Verdict.DUPLICATE),
    "a whole one below L": ("(0-0000000001-0000923200-0)", Verdict.DUPLICATE),
    "a last part up to L": ("(0-0000923200-0000923357-2)", Verdict.DUPLICATE),
    "a whole one from L": ("(0-0000923357-0000942712-0)", Verdict.READY),
    "a whole one over L": ("(0-0000923200-0000942712-0)", Verdict.OVERLAP),
    "a first part from L": ("(0-0000923357-0000923357-0)", Verdict.STAGED),
    "a middle part from L": ("(0-0000923357-0000923357-9)", Verdict.STAGED),
    "a last part from L": ("(0-0000923357-0000942712-9)", Verdict.STAGED),
    "a whole one beyond L": ("(0-0000942712-0001119170-0)", Verdict.EARLY),
    "a first part beyond L": ("(0-0000942712-0000942712-0)", Verdict.EARLY),
    "a last part beyond L": ("(0-0000942712-0001119170-1)", Verdict.EARLY),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_a_message_is_judged_by_where_it_begins_and_ends(name: str) -> None:
    text, verdict = VERDICTS[name]
    header = Header.parse(text)
    packet = Packet(header, EPOCH, (PacketRecord(Offset(header.last_offset + 1), b""),))

    assert classify(packet, B) is verdict


class TestParts:
    def test_a_last_part_may_carry_whole_transactions_behind_its_own(self) -> None:
        link = Bench(C)
        *parts, last = parts_of_d(b"x" * 50)
        end = Offset(D + 10)
        last = replace(
            last,
            header=replace(last.header, last_offset=end),
            records=(*last.records, PacketRecord(Offset(D + 5), b"one"), PacketRecord(end, b"two")),
        )

        link.read(*parts, last)

        assert (link.s, link.applied) == ((end, 0), [D, D + 5, end])
        assert link.subscriber.columns.receive_count == len(parts) + 1

    def test_those_behind_it_are_applied_after_a_crash_between(self) -> None:
        link = Bench(C, receiving=SubscriberSettings(group=1))
        *parts, last = parts_of_d(b"x" * 50)
        end = Offset(D + 10)
        last = replace(
            last,
            header=replace(last.header, last_offset=end),
            records=(*last.records, PacketRecord(end, b"two")),
        )
        link.read(*parts, last, apply=1)
        assert (link.s, link.applied) == ((D, 0), [D])

        link.restart_subscriber()
        assert link.read(*parts, last) == [Verdict.DUPLICATE] * len(parts) + [Verdict.OVERLAP]
        assert (link.s, link.applied) == ((end, 0), [D, end])
        assert link.subscriber.columns.receive_count == len(parts) + 1

    def test_parts_of_two_cuts_are_thrown_away_and_asked_for_again(self) -> None:
        link = Bench(C)
        one, other = parts_of_d(b"x" * 50, 20), parts_of_d(b"x" * 50, 21)
        assert len(one) == len(other)

        link.poll(one[0], *other[1:])
        assert (link.s, link.applied, len(link.subscriber.cache)) == ((C, 0), [], 0)
        assert (len(link.deleted), link.subscriber.tally.garbled) == (len(one), 1)

        assert link.poll() == [LinkReport(EPOCH, C, 1, asking=True)]

    def test_parts_of_two_transactions_are_thrown_away(self) -> None:
        link = Bench(C)
        parts = parts_of_d(b"x" * 50)
        stranger = replace(parts[1], records=(PacketRecord(Offset(D + 1), parts[1].records[0].data),))

        link.read(parts[0], stranger, *parts[2:])

        assert (link.s, link.applied, len(link.subscriber.cache)) == ((C, 0), [], 0)

    def test_parts_whose_end_was_sent_are_a_gap(self) -> None:
        link = Bench(C)
        link.poll(*parts_of_d(b"x" * 50)[:2])

        link.poll(control(D))

        assert link.subscriber.patience == 1
        assert link.poll() == [LinkReport(EPOCH, C, 1, asking=True)]

    def test_parts_whose_end_does_not_come_are_asked_for_in_the_end(self) -> None:
        link = Bench(C)
        parts = parts_of_d(b"x" * 50)
        link.poll(parts[0])
        link.now += link.receiving.max_gap_age - MINUTE
        link.poll(parts[1])

        link.now += link.receiving.max_gap_age - MINUTE
        assert link.poll() == []
        link.now += MINUTE
        assert link.poll() == [LinkReport(EPOCH, C, 1, asking=True)]

    def test_the_checksum_alone_may_be_cut(self) -> None:
        link = Bench(C)
        parts = parts_of_d(b"x" * 40, DIGEST_SIZE // 2)

        link.read(*parts[::-1])

        assert (link.s, link.applied) == ((D, 0), [D])

    def test_an_impossible_last_part_is_thrown_away(self) -> None:
        link = Bench(B)
        assert link.read(message("(0-0000923200-0000942712-2)")) == [Verdict.GARBLED]
        assert (link.s, link.applied) == ((B, 0), [])

    def test_an_impossible_last_part_that_waited_is_thrown_away(self) -> None:
        link = Bench(A)
        stuck = message("(0-0000923200-0000942712-2)")

        assert link.read(stuck, AB) == [Verdict.STAGED, Verdict.READY]

        assert (link.s, link.applied, len(link.subscriber.cache)) == ((B, 0), [B], 0)


class TestGaps:
    def test_anything_new_gives_all_patience_back(self) -> None:
        link = Bench(patience=3)
        link.poll(CD)
        link.poll()
        link.poll()
        assert link.subscriber.patience == 1

        link.poll(message("(0-0001119170-0001119171-0)"))

        assert link.subscriber.patience == 3

    def test_a_duplicate_gives_no_patience_back(self) -> None:
        link = Bench()
        link.poll(BC)

        assert link.poll(BC) == [REQUEST]

    def test_stale_messages_give_no_patience_back(self) -> None:
        link = Bench()
        link.poll(message("(1-0000923357-0000942712-0)"))

        assert link.poll(CD) == [LinkReport(EPOCH, A, 2, asking=True)]

    def test_one_that_is_too_old_is_not_waited_for_however_much_arrives(self) -> None:
        link = Bench()
        link.poll(BC)
        link.now += link.receiving.max_gap_age

        assert link.poll(CD) == [REQUEST]

    def test_one_behind_which_too_much_waits_is_not_waited_for(self) -> None:
        link = Bench(receiving=SubscriberSettings(max_gap_messages=2))
        later = message("(0-0001119170-0001119171-0)")

        assert link.poll(BC, CD, later) == [REQUEST]
        assert (link.subscriber.tally.overflow, link.deleted) == (1, ["m2", "m0", "m1"])

    def test_a_batch_asks_at_once_and_for_nothing_without_a_gap(self) -> None:
        assert Bench().poll(BC, final=True) == [REQUEST]
        assert Bench().poll(AB, final=True) == [LinkReport(EPOCH, B, 0)]

    def test_one_that_is_announced_survives_the_poll_that_brought_it(self) -> None:
        link = Bench()

        assert link.poll(control(B)) == []
        assert link.poll() == [REQUEST]

    def test_one_that_was_announced_early_closes_when_the_work_comes(self) -> None:
        link = Bench()
        link.poll(control(B))

        assert link.poll(AB) == [LinkReport(EPOCH, B, 0)]
        assert link.subscriber.patience is None

    def test_what_was_cached_is_applied_when_the_gap_closes(self) -> None:
        link = Bench()

        assert link.read(CD, BC, AB) == [Verdict.EARLY, Verdict.EARLY, Verdict.READY]

        assert (link.s, link.applied, link.subscriber.patience) == ((D, 0), [B, C, D], None)
        assert sorted(link.deleted) == ["m0", "m1", "m2"]


class TestRequests:
    def test_one_is_repeated_until_something_is_heard_and_when_stale_messages_come(self) -> None:
        link = Bench()
        link.poll(BC)
        assert link.poll() == [REQUEST]

        assert link.poll() == []
        assert link.poll(CD) == [REQUEST]
        link.now += link.receiving.repeat_after
        assert link.poll() == [REQUEST]
        assert link.poll(control(A, resend_count=1)) == []
        link.now += link.receiving.repeat_after
        assert link.poll() == []

    def test_one_is_carried_by_what_goes_out_anyhow(self) -> None:
        link = Bench()
        link.poll(BC)
        link.poll()

        report = sub.report_of(link.subscriber)
        state = sub.reported(link.subscriber, report, now=NOW, settings=link.receiving)

        assert report == REQUEST
        assert not state.report_due


class TestReports:
    def test_a_process_that_starts_reports(self) -> None:
        link = Bench()
        link.restart_subscriber()

        assert link.poll() == [LinkReport(EPOCH, A, 0)]
        assert link.poll() == []

    def test_a_probe_and_a_duplicate_are_answered_and_an_announcement_is_not(self) -> None:
        link = Bench(B)

        assert link.poll(control(B, probe=True)) == [LinkReport(EPOCH, B, 0)]
        assert link.poll(control(B)) == []
        assert link.poll(AB) == [LinkReport(EPOCH, B, 0)]

    def test_a_stale_probe_is_answered(self) -> None:
        link = Bench()
        link.poll(message("(1-0000923200-0000923357-0)"))

        assert link.poll(control(B, probe=True)) == [LinkReport(EPOCH, B, 1)]

    def test_a_horizon_that_goes_back_takes_nothing_back(self) -> None:
        link = Bench()
        link.poll(AB, BC, horizon=C)

        assert sub.report_of(link.subscriber, A) == LinkReport(EPOCH, C, 0)

    def test_a_poll_begins_some_time_after_the_last_one_ended(self) -> None:
        assert sub.next_poll(NOW, SubscriberSettings(poll=3 * MINUTE)) == NOW + 3 * MINUTE


class TestTheInbox:
    def test_a_message_that_is_read_again_while_it_waits_stays(self) -> None:
        link = Bench()
        link.read(BC)

        turn = sub.receive(link.subscriber, BC, "m0", now=NOW, settings=link.receiving)

        assert (turn.verdict, turn.actions) == (Verdict.HELD, ())

    def test_what_is_sent_again_replaces_what_waited(self) -> None:
        link = Bench()
        link.read(BC)

        turn = sub.receive(
            link.subscriber, message("(1-0000942712-0001119170-0)"), "new", now=NOW, settings=link.receiving
        )

        assert only(turn.actions, DeleteMessages) == [DeleteMessages(("m0",))]
        assert [str(header) for header in turn.state.cache] == ["(1-0000942712-0001119170-0)"]

    def test_the_same_range_in_greater_groups_is_another_message(self) -> None:
        link = Bench(A)
        longer = message("(0-0000923357-0001119170-0)", C, D)

        assert link.read(BC, longer) == [Verdict.EARLY, Verdict.EARLY]
        link.read(AB)

        assert (link.s, link.applied) == ((D, 0), [B, C, D])

    def test_what_arrives_is_dated(self) -> None:
        link = Bench()
        link.now += MINUTE

        link.read(AB)

        assert link.subscriber.columns.time_received == NOW + MINUTE


class TestEpochs:
    def test_a_message_of_an_earlier_one_is_thrown_away(self) -> None:
        link = Bench()
        earlier = Epoch("20230101T000000000000-a")

        assert link.read(replace(AB, epoch=earlier), control(D, epoch=earlier)) == [Verdict.RETIRED] * 2
        assert (link.s, link.subscriber.patience, link.alarms) == ((A, 0), None, [])


BAD: list[tuple[Any, dict[str, Any]]] = [
    *((SubscriberSettings, {name: 0}) for name in ("patience", "max_gap_messages", "group")),
    *((SubscriberSettings, {name: timedelta(0)}) for name in ("poll", "max_gap_age")),
    (SubscriberSettings, {"repeat_after": -MINUTE}),
    (PublisherSettings, {"resend_urgency": -MINUTE}),
    (PublisherSettings, {"probe_after": timedelta(0)}),
    *((settings, {"message_size": 100}) for settings in (SubscriberSettings, PublisherSettings)),
]


@pytest.mark.parametrize(("settings", "wrong"), BAD, ids=str)
def test_a_setting_of_either_end_that_cannot_work_is_refused(settings: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        settings(**wrong)
