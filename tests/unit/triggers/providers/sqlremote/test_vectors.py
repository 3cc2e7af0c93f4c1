"""The vectors V1 to V26, each by its number; "seed" in a name marks the vectors from the seed itself.

A = 923200, B = 923357, C = 942712, D = 1119170; P is (log_sent, confirm_sent, resend_count), S is
(log_received, rereceive_count). The tests of the tables show the parts that need a database: the row of a
reset is rolled back with its caller (the rest of V25), deletion from the log stops there (V27), and L is
stored with the work (V13, V20). The decisions of V13 and V20 are here.
"""

from dataclasses import replace

from history.store import Incoming, Offset, Outgoing, Watermark, watermark
from tests.unit.triggers.providers.sqlremote.bench import (
    AB,
    BC,
    CD,
    EPOCH,
    LATER_EPOCH,
    NOW,
    A,
    B,
    Bench,
    C,
    D,
    headers,
    message,
)
from triggers.providers.sqlremote.protocol import publisher as pub
from triggers.providers.sqlremote.protocol.alarms import AlarmKind
from triggers.providers.sqlremote.protocol.inbox import SubscriberSettings
from triggers.providers.sqlremote.protocol.packet import LinkReport, Packet
from triggers.providers.sqlremote.protocol.parts import Transaction
from triggers.providers.sqlremote.protocol.verdicts import Verdict

PARTS = [
    "(0-0000942712-0000942712-0)",
    "(0-0000942712-0000942712-1)",
    "(0-0000942712-0000942712-2)",
    "(0-0000942712-0001119170-3)",
]
RESENT_PARTS = [text.replace("(0-", "(1-") for text in PARTS]


def test_v1_seed_a_single_message() -> None:
    link = Bench()

    gone = link.send(B)
    assert (headers(gone), link.p) == (["(0-0000923200-0000923357-0)"], (B, A, 0))

    reports = link.poll(*gone)
    assert link.s == (B, 0)
    assert reports == [LinkReport(EPOCH, B, 0)]
    assert link.subscriber.columns.confirm_received == B

    link.hear(*reports)
    assert link.p == (B, B, 0)


def test_v2_seed_a_chain_and_one_cumulative_confirmation() -> None:
    link = Bench()

    gone = link.send(B, C)
    assert headers(gone) == ["(0-0000923200-0000923357-0)", "(0-0000923357-0000942712-0)"]

    reports = link.poll(*gone)
    assert (link.p, link.s) == ((C, A, 0), (C, 0))
    assert reports == [LinkReport(EPOCH, C, 0)]

    link.hear(*reports)
    assert link.p == (C, C, 0)


def test_v3_seed_a_transaction_in_four_parts() -> None:
    link = Bench(C, long=True)
    link.publisher = pub.let_send(link.publisher, D)
    gone = list(pub.packets(link.publisher, link.log, link.publishing))
    assert headers(gone) == PARTS

    for packet in gone[:3]:
        link.publisher = pub.sent(link.publisher, packet.header, now=NOW, settings=link.publishing)
        assert link.read(packet) == [Verdict.STAGED]
        assert (link.p, link.s, link.applied) == ((C, C, 0), (C, 0), [])
        assert link.subscriber.patience is None

    link.publisher = pub.sent(link.publisher, gone[3].header, now=NOW, settings=link.publishing)
    link.read(gone[3])
    assert (link.p, link.s, link.applied) == ((D, C, 0), (D, 0), [D])
    assert link.subscriber.columns.receive_count == 4


def test_v4_parts_that_arrive_in_another_order() -> None:
    for order in ([0, 2, 1, 3], [3, 2, 1, 0]):
        link = Bench(C, long=True)
        gone = link.send(D)

        link.poll(*(gone[place] for place in order))

        assert (link.s, link.applied) == ((D, 0), [D])


def test_v5_a_publisher_that_dies_before_it_stores_log_sent() -> None:
    link = Bench()
    link.read(*link.send(B))
    link.restart_publisher(log_sent=A)

    gone = link.send(C)

    assert headers(gone) == ["(0-0000923200-0000942712-0)"]
    assert [record.offset for record in gone[0].records] == [B, C]
    assert link.read(*gone) == [Verdict.OVERLAP]
    assert (link.s, link.applied) == ((C, 0), [B, C])


def test_v6_a_single_message_that_arrives_twice() -> None:
    link = Bench()
    (packet,) = link.send(B)

    assert link.read(packet, packet) == [Verdict.READY, Verdict.DUPLICATE]
    assert (link.s, link.applied, link.deleted) == ((B, 0), [B], ["m0", "m1"])
    assert link.subscriber.columns.receive_count == 1


def test_v6_parts_that_arrive_twice() -> None:
    link = Bench(C, long=True)
    gone = link.send(D)

    assert link.read(gone[0], gone[1], gone[1]) == [Verdict.STAGED, Verdict.STAGED, Verdict.DUPLICATE]
    link.read(*gone[2:])
    assert link.read(gone[1]) == [Verdict.DUPLICATE]
    assert (link.s, link.applied) == ((D, 0), [D])


def test_v7_a_part_that_is_lost() -> None:
    link = Bench(C, long=True)
    gone = link.send(D)

    assert link.poll(gone[0], gone[2], gone[3]) == []
    assert (link.s, link.subscriber.patience) == ((C, 0), 1)

    reports = link.poll()
    assert reports == [LinkReport(EPOCH, C, 1, asking=True)]
    assert (link.s, dict(link.subscriber.cache)) == ((C, 1), {})
    assert link.deleted == ["m0", "m1", "m2"]

    link.hear(*reports)
    assert link.p == (C, C, 1)
    assert link.read(gone[1]) == [Verdict.STALE]

    again = link.send(D)
    assert headers(again) == RESENT_PARTS
    link.hear(*link.poll(*again))
    assert (link.p, link.s, link.applied) == ((D, D, 1), (D, 1), [D])
    assert (link.publisher.columns.send_count, link.subscriber.columns.receive_count) == (8, 4)


def resent(count: int) -> list[Packet]:
    """Return the messages up to D, as they are sent again after so many requests."""
    return [replace(one, header=replace(one.header, resend_count=count)) for one in (AB, BC, CD)]


def after_a_lost_c() -> Bench:
    """V8 up to the request: C is lost, D has arrived, and the publisher knows it."""
    link = Bench()
    first, _, third = link.send(B, C, D)
    link.hear(*link.poll(first))
    assert link.p == (D, B, 0)
    assert (link.poll(third), link.subscriber.patience) == ([], 1)
    reports = link.poll()
    assert reports == [LinkReport(EPOCH, B, 1, asking=True)]
    link.hear(*reports)
    assert link.p == (B, B, 1)
    return link


def test_v8_a_single_message_that_is_lost() -> None:
    link = after_a_lost_c()

    assert link.read(BC) == [Verdict.STALE]
    assert headers(link.send(C, D)) == ["(1-0000923357-0001119170-0)"]
    one, two = message("(1-0000923357-0000942712-0)"), message("(1-0000942712-0001119170-0)")
    link.hear(*link.poll(one, two))

    assert (link.p, link.s, link.applied) == ((D, D, 1), (D, 1), [B, C, D])
    assert link.subscriber.columns.receive_count == 3


def test_v8_seed_the_header_of_a_message_that_is_sent_again() -> None:
    large = 30_000
    link = Bench()
    link.log = [Transaction(one.offset, one.data.ljust(large)) for one in link.log]
    first, _, third = link.send(D)
    link.hear(*link.poll(first), *link.poll(third), *link.poll())

    again = link.send(D)

    assert headers(again) == ["(1-0000923357-0000942712-0)", "(1-0000942712-0001119170-0)"]
    link.hear(*link.poll(*again))
    assert (link.p, link.s) == ((D, D, 1), (D, 1))
    assert (link.publisher.columns.send_count, link.subscriber.columns.receive_count) == (5, 3)


def test_v9_a_late_message_within_patience() -> None:
    link = Bench()
    first, second, third = link.send(B, C, D)

    link.poll(first, third)
    link.poll(second)

    assert (link.s, link.applied) == ((D, 0), [B, C, D])


def test_v10_a_late_message_after_the_request_stays_deleted_although_it_would_fit() -> None:
    link = after_a_lost_c()

    late = BC
    assert late.header.previous_offset == link.s[0]
    assert link.read(late) == [Verdict.STALE]

    assert (link.s, link.applied) == ((B, 1), [B])


def test_v11_messages_that_are_sent_again_in_other_groups() -> None:
    link = after_a_lost_c()

    again = link.send(D)
    assert headers(again) == ["(1-0000923357-0001119170-0)"]
    link.poll(*again)

    assert (link.s, link.applied) == ((D, 1), [B, C, D])


def test_v12_a_request_that_confirms_nothing() -> None:
    link = Bench()
    first, _, third = link.send(B, C, D)
    link.poll(first)  # its confirmation is lost
    link.poll(third)
    link.poll()
    link.hear(LinkReport(EPOCH, A, 1))
    assert link.p == (A, A, 1)

    assert link.read(*resent(1)) == [Verdict.DUPLICATE, Verdict.READY, Verdict.READY]
    assert (link.s, link.applied) == ((D, 1), [B, C, D])


def test_v13_a_subscriber_that_dies_between_two_transactions_of_a_message() -> None:
    link = Bench(receiving=SubscriberSettings(group=2))
    packet = message("(0-0000923200-0001119170-0)", B, C, D)
    link.read(packet, apply=1)
    assert (link.s, link.applied, link.deleted) == ((C, 0), [B, C], [])

    link.restart_subscriber()

    assert link.read(packet) == [Verdict.OVERLAP]
    assert (link.s, link.applied) == ((D, 0), [B, C, D])
    assert link.subscriber.columns.receive_count == 1


def test_v14_a_confirmation_that_arrives_after_a_reset() -> None:
    link = Bench()
    link.send(B, C)
    link.hear(LinkReport(EPOCH, A, 1))
    assert link.p == (A, A, 1)

    link.confirm(C)

    assert link.p == (C, C, 1)
    assert headers(link.send(D)) == ["(1-0000942712-0001119170-0)"]


def test_v15_the_same_request_twice() -> None:
    link = Bench()
    link.send(B, C)
    request = LinkReport(EPOCH, A, 1, asking=True)

    link.hear(request, request)

    assert link.p == (A, A, 1)


def test_v15_a_publisher_that_counts_every_request_is_followed() -> None:
    link = Bench()
    link.subscriber = replace(link.subscriber, columns=replace(link.subscriber.columns, rereceive_count=1))

    assert link.read(message("(2-0000923200-0000923357-0)")) == [Verdict.READY]

    assert link.s == (B, 2)


def test_v16_a_subscriber_that_was_restored() -> None:
    link = Bench()
    link.send(B, C)
    link.confirm(C)
    assert (link.p, link.s) == ((C, C, 0), (A, 0))

    (gone,) = link.send(D)
    assert str(gone.header) == "(0-0000942712-0001119170-0)"
    link.poll(gone)
    turn = link.hear(*link.poll())

    assert [alarm.kind for alarm in link.alarms] == [AlarmKind.SUBSCRIBER_REGRESSED]
    assert turn.state.alarm is link.alarms[0]
    assert not link.send(D)


def test_v16_without_the_alarm_it_would_ask_for_ever() -> None:
    link = Bench()

    for count in range(1, 4):
        link.poll(message(f"({count - 1}-0000942712-0001119170-0)"))
        assert link.poll() == [LinkReport(EPOCH, A, count, asking=True)]


def test_v17_a_publisher_that_was_restored_within_its_epoch() -> None:
    other = Offset(C - 7)
    link = Bench(C)

    assert link.read(message(f"(0-0000923200-0000{other}-0)", other)) == [Verdict.DUPLICATE]
    # The duplicate makes the subscriber repeat what it has, which is more than the publisher's log.
    link.hear(*link.poll(), log_end=other)

    assert [alarm.kind for alarm in link.alarms] == [AlarmKind.AHEAD_OF_LOG]


def test_v17_a_publisher_that_was_restored_with_a_new_epoch() -> None:
    link = Bench(C)
    packet = message("(0-0000923200-0000923357-0)", epoch=LATER_EPOCH)

    assert link.read(packet) == [Verdict.HALTED]

    assert [alarm.kind for alarm in link.alarms] == [AlarmKind.EPOCH_MISMATCH]
    assert (link.s, link.deleted) == ((C, 0), [])
    assert link.read(CD) == [Verdict.HALTED]
    assert link.poll() == []


def test_v17_a_confirmation_beyond_the_log() -> None:
    link = Bench()

    link.confirm(D, log_end=B)

    assert [alarm.kind for alarm in link.alarms] == [AlarmKind.AHEAD_OF_LOG]
    assert link.p == (A, A, 0)


def test_v18_a_garbled_message_is_seen_with_the_next_one() -> None:
    link = Bench()
    link.garble()
    assert link.poll() == []
    assert (link.s, link.subscriber.patience) == ((A, 0), None)

    assert link.poll(BC) == []
    assert link.poll() == [LinkReport(EPOCH, A, 1, asking=True)]


def test_v19_doc_a_timeline_of_patience() -> None:
    one, two = Bench(patience=3), Bench(patience=3)
    u11, u13, u14 = AB, CD, message("(0-0001119170-0001119180-0)")
    u24 = message("(0-0001119170-0001119180-0)")

    assert len(one.poll(u11)) == 1  # applied, so confirmed
    assert two.poll(u24) == []
    assert (one.subscriber.patience, two.subscriber.patience) == (None, 3)

    assert (one.poll(), two.poll()) == ([], [])
    assert (one.subscriber.patience, two.subscriber.patience) == (None, 2)

    assert (one.poll(u13), two.poll()) == ([], [])
    assert (one.subscriber.patience, two.subscriber.patience) == (3, 1)

    assert (one.poll(u14), one.subscriber.patience) == ([], 3)
    assert two.poll() == [LinkReport(EPOCH, A, 1, asking=True)]


def test_v20_a_durable_horizon() -> None:
    link = Bench()
    gone = link.send(B, C)

    link.hear(*link.poll(*gone, horizon=B))
    assert (link.s, link.subscriber.columns.confirm_received) == ((C, 0), B)
    assert link.p == (C, B, 0)

    assert link.poll(horizon=B) == []
    reports = link.poll(horizon=C)
    assert reports == [LinkReport(EPOCH, C, 0)]
    link.hear(*reports)
    assert link.p == (C, C, 0)


def test_v21_a_resend_count_that_is_ahead() -> None:
    link = Bench()

    assert (link.read(message("(1-0000923200-0000923357-0)")), link.s) == ([Verdict.READY], (B, 1))
    assert link.read(BC) == [Verdict.STALE]


def test_v22_a_message_that_is_lost_twice() -> None:
    link = Bench()
    old, again, once_more = (resent(count) for count in range(3))

    link.send(D)
    link.poll(*old[1:])
    link.hear(*link.poll())
    assert (link.p, link.s) == ((A, A, 1), (A, 1))

    link.send(D)
    link.poll(*again[1:])
    link.hear(*link.poll())
    assert (link.p, link.s) == ((A, A, 2), (A, 2))

    link.poll(*once_more)
    assert (link.s, link.applied) == ((D, 2), [B, C, D])
    assert link.read(*old, *again) == [Verdict.STALE] * 6
    assert link.subscriber.tally.stale == 6


def test_v23_a_row_holds_offsets_of_two_logs() -> None:
    here = Bench()
    here.read(*here.send(C))
    row = Watermark(peer="y", outgoing=Outgoing(epoch=LATER_EPOCH), incoming=here.subscriber.columns)
    state = pub.let_send(pub.PublisherState(columns=row.outgoing), Offset(30))
    own = [Transaction(Offset(10), b"ours")]

    gone = list(pub.packets(state, own, here.publishing))

    assert headers(gone) == ["(0-0000000000-0000000010-0)"]
    assert (row.incoming.epoch, row.incoming.log_received) == (EPOCH, C)
    assert [record.data for record in gone[0].records] == [b"ours"]


def test_v24_the_gate_of_the_schedule() -> None:
    link = Bench(B)

    assert not list(pub.packets(link.publisher, link.log, link.publishing))

    assert headers(link.send(C)) == ["(0-0000923357-0000942712-0)"]


def test_v25_a_reset_at_the_end_of_the_log() -> None:
    link = Bench()
    link.send(B, C)
    link.confirm(B, 0)
    before = link.publisher.columns

    after = watermark.reset_outgoing(before, D, LATER_EPOCH)

    assert (after.log_sent, after.confirm_sent, after.resend_count) == (D, D, 0)
    assert after.epoch == LATER_EPOCH
    assert (before.log_sent, before.confirm_sent) == (C, B)


def test_v25_the_other_end_begins_where_the_extract_ends() -> None:
    before = Incoming(epoch=EPOCH, log_received=B, confirm_received=A, receive_count=7, rereceive_count=3)

    after = watermark.reset_incoming(before, D, LATER_EPOCH)

    assert after == Incoming(epoch=LATER_EPOCH, log_received=D, confirm_received=D)


def test_v26_a_request_that_is_lost() -> None:
    link = Bench()
    link.send(B)
    link.confirm(B)
    link.subscriber = replace(
        link.subscriber, columns=replace(link.subscriber.columns, log_received=B, rereceive_count=1)
    )
    link.restart_subscriber()
    link.poll()  # the request goes out, and is lost

    assert link.read(*link.send(C, D)) == [Verdict.STALE, Verdict.STALE]
    reports = link.poll()
    assert reports == [LinkReport(EPOCH, B, 1, asking=True)]

    link.hear(*reports, *reports)
    assert link.p == (B, B, 1)
