"""The sending end: cases that the vectors leave out."""

from dataclasses import replace
from datetime import timedelta

from history.store import watermark
from history.store.watermark import Epoch, Incoming, Offset, Outgoing, broken_rules, new_epoch
from tests.unit.triggers.providers.sqlremote.bench import (
    EPOCH,
    LATER_EPOCH,
    MINUTE,
    NOW,
    A,
    B,
    Bench,
    C,
    D,
    headers,
    only,
)
from triggers.providers.sqlremote.protocol import publisher as pub
from triggers.providers.sqlremote.protocol.alarms import AlarmKind
from triggers.providers.sqlremote.protocol.packet import DEFAULT_MESSAGE_SIZE, LinkReport
from triggers.providers.sqlremote.protocol.publisher import Announce, PublisherSettings


def ticked(link: Bench, later: timedelta = timedelta(0)) -> pub.PublisherStep:
    link.now += later
    turn = pub.tick(link.publisher, now=link.now, settings=link.publishing)
    link.publisher = turn.state
    return turn


class TestSending:
    def test_a_message_moves_the_counters(self) -> None:
        link = Bench()

        link.send(B)

        columns = link.publisher.columns
        assert (columns.send_count, columns.time_sent) == (1, NOW)
        assert columns.message_size == DEFAULT_MESSAGE_SIZE

    def test_the_gate_never_closes_behind_what_it_let_out(self) -> None:
        link = Bench()
        link.send(C)

        assert pub.let_send(link.publisher, B).columns.log_send == C

    def test_what_was_built_before_a_reset_and_slips_out_moves_nothing(self) -> None:
        link = Bench()
        gone = link.send(B, C)
        link.hear(LinkReport(EPOCH, A, 1))

        link.publisher = pub.sent(link.publisher, gone[0].header, now=NOW, settings=link.publishing)

        assert (link.p, link.publisher.columns.send_count) == ((A, A, 1), 3)


class TestConfirmations:
    def test_one_that_is_late_changes_nothing(self) -> None:
        link = Bench()
        link.send(B, C)
        link.confirm(C)

        link.confirm(B)

        assert link.p == (C, C, 0)

    def test_one_for_what_was_sent_by_a_process_that_died_is_taken(self) -> None:
        link = Bench()
        link.send(B, C)
        link.restart_publisher(log_sent=A)

        link.confirm(C)

        assert link.p == (C, C, 0)
        assert not link.alarms

    def test_one_of_an_earlier_epoch_is_late(self) -> None:
        link = Bench()
        link.send(B)
        earlier = Epoch("20230101T000000000000-a")

        turn = link.hear(LinkReport(earlier, D, 9, asking=True))

        assert (link.p, turn.actions) == ((B, A, 0), ())

    def test_one_of_a_later_epoch_stops_the_link(self) -> None:
        link = Bench()

        link.hear(LinkReport(LATER_EPOCH, A, 0))

        assert [alarm.kind for alarm in link.alarms] == [AlarmKind.EPOCH_MISMATCH]


class TestRequests:
    def test_one_is_answered_with_what_was_sent(self) -> None:
        link = Bench()
        link.send(C)

        turn = link.hear(LinkReport(EPOCH, B, 1, asking=True))

        assert link.p == (B, B, 1)
        assert only(turn.actions, Announce) == [Announce(probe=False)]
        announced = pub.announcement(link.publisher, probe=False)
        assert str(announced.header) == "(1-0000923357-0000923357-0)"
        assert announced.is_control

    def test_one_that_was_honoured_is_answered_while_the_peer_still_asks(self) -> None:
        link = Bench()
        link.send(C)
        link.hear(LinkReport(EPOCH, B, 1, asking=True))

        again = link.hear(LinkReport(EPOCH, B, 1, asking=True))
        heard = link.hear(LinkReport(EPOCH, B, 1, asking=False))

        assert (again.actions, heard.actions) == ((Announce(probe=False),), ())
        assert link.p == (B, B, 1)

    def test_one_that_overtakes_an_older_one_counts_once(self) -> None:
        link = Bench()
        link.send(D)

        link.hear(LinkReport(EPOCH, C, 2), LinkReport(EPOCH, B, 1))

        assert link.p == (C, C, 2)

    def test_urgency_lets_several_share_one_reading_of_the_log(self) -> None:
        link = Bench(publishing=PublisherSettings(resend_urgency=2 * MINUTE))
        link.send(D)

        link.hear(LinkReport(EPOCH, A, 1))
        assert link.p == (D, A, 0)
        assert link.send(D) == []  # it would be thrown away as stale
        link.now += MINUTE
        link.hear(LinkReport(EPOCH, B, 2))
        assert link.p == (D, B, 0)

        ticked(link, MINUTE - timedelta(seconds=1))
        assert link.p == (D, B, 0)
        turn = ticked(link, timedelta(seconds=1))
        assert link.p == (B, B, 2)
        assert turn.actions == (Announce(probe=False),)

    def test_one_that_waits_is_asked_for_again_after_a_crash(self) -> None:
        link = Bench(publishing=PublisherSettings(resend_urgency=MINUTE))
        link.send(D)
        link.hear(LinkReport(EPOCH, A, 1))
        link.restart_publisher()
        assert link.publisher.resend is None

        link.hear(LinkReport(EPOCH, A, 1))
        ticked(link, MINUTE)

        assert link.p == (A, A, 1)


class TestProbes:
    def test_one_goes_out_when_no_confirmation_comes(self) -> None:
        link = Bench()
        link.send(B)

        early = ticked(link, link.publishing.probe_after - timedelta(seconds=1))
        due = ticked(link, timedelta(seconds=1))
        at_once = ticked(link)
        again = ticked(link, link.publishing.probe_after)

        assert [turn.actions for turn in (early, due, at_once, again)] == [
            (),
            (Announce(probe=True),),
            (),
            (Announce(probe=True),),
        ]

    def test_a_confirmation_gives_the_rest_its_time_and_what_is_confirmed_needs_none(self) -> None:
        link = Bench()
        link.send(B, C)
        link.now += link.publishing.probe_after - MINUTE
        link.confirm(B)

        assert ticked(link, MINUTE).actions == ()
        assert ticked(link, link.publishing.probe_after).actions == (Announce(probe=True),)
        link.confirm(C)
        assert ticked(link, 10 * link.publishing.probe_after).actions == ()

    def test_a_process_that_starts_asks_once_what_its_peer_has_and_then_waits(self) -> None:
        link = Bench()
        link.send(B)
        link.restart_publisher()

        assert ticked(link).actions == (Announce(probe=True),)
        assert ticked(link).actions == ()
        assert ticked(link, link.publishing.probe_after).actions == (Announce(probe=True),)


class TestAlarms:
    def halted(self) -> Bench:
        link = Bench()
        link.send(B)
        link.confirm(D, log_end=C)
        return link

    def test_one_is_told_once_and_stops_everything(self) -> None:
        link = self.halted()
        columns = link.publisher.columns

        turn = link.hear(LinkReport(EPOCH, B, 1, asking=True))

        assert (turn.actions, ticked(link, timedelta(days=1)).actions) == ((), ())
        assert (link.send(D), len(link.alarms)) == ([], 1)
        assert replace(columns, log_send=D) == link.publisher.columns

    def test_an_old_report_is_no_regression(self) -> None:
        link = Bench()
        link.send(D)
        link.hear(LinkReport(EPOCH, B, 1), LinkReport(EPOCH, C, 1))

        link.hear(LinkReport(EPOCH, A, 0), LinkReport(EPOCH, B, 1))

        assert not link.alarms

    def test_one_says_what_to_do(self) -> None:
        (alarm,) = self.halted().alarms

        assert str(alarm) == (
            "AHEAD_OF_LOG: the peer has work up to 1119170, and the log here ends at 942712: "
            "this database was restored from a backup; restore the rest of the log, or run doubtless "
            "sqlremote extract at the end that is right, and load it at the other one"
        )


class TestMessageSize:
    def test_another_one_sends_again_under_another_count_and_the_first_is_no_other(self) -> None:
        link = Bench()
        link.restart_publisher()
        assert link.p == (A, A, 0)
        link.send(C)
        link.confirm(B)
        link.publishing = PublisherSettings(message_size=20_000)

        link.restart_publisher()

        assert link.p == (B, B, 1)
        assert headers(link.send(D)) == ["(1-0000923357-0001119170-0)"]
        link.restart_publisher()
        assert link.p == (D, B, 1)


class TestRows:
    def test_a_row_that_was_written_by_hand_is_told_apart_from_one_by_rules(self) -> None:
        outgoing = Outgoing(epoch=EPOCH, log_send=D, log_sent=B, confirm_sent=C, send_count=-1)
        incoming = Incoming(epoch=EPOCH, log_received=Offset(8), confirm_received=Offset(9))
        by_rules = replace(outgoing, log_sent=C, confirm_sent=B, send_count=0)

        assert broken_rules(outgoing, incoming, log_end=A) == (
            "confirm_sent <= log_sent",
            "log_sent <= end of log",
            "log_send <= end of log",
            "confirm_received <= log_received",
            "counts are not negative",
        )
        assert broken_rules(by_rules, replace(incoming, log_received=Offset(9)), log_end=D) == ()

    def test_a_later_epoch_sorts_after_an_earlier_one(self) -> None:
        epochs = [new_epoch(NOW + later * MINUTE, token) for later, token in ((0, "z"), (1, "b"), (2, "a"))]

        assert sorted(epochs) == epochs

    def test_a_count_is_adopted_only_if_it_is_ahead(self) -> None:
        row = Incoming(epoch=EPOCH, rereceive_count=3)

        assert watermark.adopt_count(row, 2) == row
