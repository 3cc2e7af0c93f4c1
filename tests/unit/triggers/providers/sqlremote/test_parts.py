"""Transactions are cut into parts, written as bytes, read, and put together again."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as some

from history.errors import ConfigurationError
from history.store.watermark import MAX_OFFSET, Epoch, Offset
from triggers.providers.sqlremote.protocol.header import MAX_COUNT, Header, PacketKind
from triggers.providers.sqlremote.protocol.packet import (
    DEFAULT_MESSAGE_SIZE,
    MIN_MESSAGE_SIZE,
    LinkReport,
    Packet,
    capacity,
    decode,
    encode,
)
from triggers.providers.sqlremote.protocol.parts import (
    Draft,
    MangledError,
    PacketRecord,
    Transaction,
    checksum,
    cut,
    join,
    pack,
    split,
    unpack,
)

EPOCH = Epoch("e" * 48)
A, B, C, D = (Offset(one) for one in (923200, 923357, 942712, 1119170))

contents = some.lists(some.binary(max_size=300), max_size=8)


def numbered(data: list[bytes]) -> list[Transaction]:
    return [Transaction(Offset(10 * place + 10), one) for place, one in enumerate(data)]


def reassembled(drafts: list[Draft]) -> list[Transaction]:
    """Return the transactions that a subscriber gets from messages that all arrive in order."""
    found: list[Transaction] = []
    for part, group in groupby(drafts, key=lambda draft: draft.previous_offset):
        run = list(group)
        assert part == (found[-1].offset if found else 0)
        if run[0].last_offset > run[0].previous_offset:
            found += [Transaction(*record) for record in run[0].records]
        else:
            assert [draft.sequence for draft in run] == list(range(len(run)))
            data = join([draft.records[0].data for draft in run])
            found.append(Transaction(run[-1].last_offset, data))
    return found


@given(data=contents, room=some.integers(40, 200))
def test_what_is_cut_can_be_put_together_and_no_message_needs_more_than_it_may(
    data: list[bytes], room: int
) -> None:
    drafts = list(cut(Offset(0), numbered(data), room))

    assert reassembled(drafts) == numbered(data)
    assert all(len(pack(draft.records)) <= room for draft in drafts)


@given(data=contents, room=some.integers(40, 200), start=some.integers(0, 7))
def test_parts_do_not_depend_on_what_was_sent_before(data: list[bytes], room: int, start: int) -> None:
    transactions = numbered(data)

    every = [one for one in cut(Offset(0), transactions, room) if one.sequence]
    previous = transactions[start - 1].offset if 0 < start <= len(transactions) else Offset(0)
    later = [one for one in cut(previous, transactions[start:], room) if one.sequence]

    assert every[len(every) - len(later) :] == later


@given(data=some.binary(min_size=100, max_size=300), room=some.integers(40, 90))
def test_parts_do_not_depend_on_the_offsets(data: bytes, room: int) -> None:
    one = cut(A, [Transaction(D, data)], room)
    other = cut(Offset(C + 1), [Transaction(Offset(D + 1), data)], room)

    assert [draft.records[0].data for draft in one] == [draft.records[0].data for draft in other]


def test_a_transaction_of_just_the_size_is_not_cut() -> None:
    room = capacity(DEFAULT_MESSAGE_SIZE) - 12

    whole = list(cut(A, [Transaction(B, bytes(room))], capacity(DEFAULT_MESSAGE_SIZE)))
    parts = list(cut(A, [Transaction(B, bytes(room + 1))], capacity(DEFAULT_MESSAGE_SIZE)))

    assert [(one.previous_offset, one.last_offset, one.sequence) for one in whole] == [(A, B, 0)]
    assert [(one.previous_offset, one.last_offset, one.sequence) for one in parts] == [(A, A, 0), (A, B, 1)]


def test_what_stands_beside_a_cut_transaction_travels_alone() -> None:
    drafts = list(cut(A, [Transaction(B, b"b"), Transaction(C, bytes(100)), Transaction(D, b"d")], 100))

    assert [(one.previous_offset, one.last_offset, one.sequence) for one in drafts] == [
        (A, B, 0),
        (B, B, 0),
        (B, C, 1),
        (C, D, 0),
    ]


def test_messages_are_cut_one_at_a_time() -> None:
    asked: list[int] = []

    def log() -> Transaction:
        asked.append(1)
        return Transaction(Offset(10 * len(asked)), bytes(80))

    drafts = cut(Offset(0), iter(log, None), 100)
    next(drafts)

    assert len(asked) == 2


PARTS = split(bytes(range(200)), 50)


class TestParts:
    @pytest.mark.parametrize(
        "parts",
        [
            pytest.param([PARTS[1], PARTS[0], *PARTS[2:]], id="another order"),
            pytest.param(PARTS[:-1], id="a part is missing"),
            pytest.param([PARTS[0], *split(bytes(range(200)), 60)[1:]], id="parts of two cuts"),
            pytest.param([], id="nothing at all"),
        ],
    )
    def test_what_is_not_all_parts_of_one_cut_is_noticed(self, parts: list[bytes]) -> None:
        with pytest.raises(MangledError):
            join(parts)

    @given(data=some.binary(max_size=500), room=some.integers(1, 100))
    def test_all_but_the_last_are_full(self, data: bytes, room: int) -> None:
        *full, last = split(data, room)

        assert {len(part) for part in full} <= {room}
        assert 0 < len(last) <= room


class TestRecords:
    @given(
        records=some.lists(some.tuples(some.integers(0, MAX_OFFSET).map(Offset), some.binary(max_size=50)))
    )
    def test_what_is_written_is_read_back(self, records: list[tuple[Offset, bytes]]) -> None:
        written = [PacketRecord(*record) for record in records]

        assert unpack(pack(written)) == tuple(written)

    @pytest.mark.parametrize(
        "body",
        [b"\0", pack([PacketRecord(A, b"abc")])[:-1], b"\xff" * 8 + bytes(4)],
        ids=["no prefix", "cut off", "offset too great"],
    )
    def test_what_is_no_record_is_refused(self, body: bytes) -> None:
        with pytest.raises(MangledError):
            unpack(body)


def a_packet(**changes: object) -> Packet:
    fields = {
        "header": Header(0, A, C, 0),
        "epoch": EPOCH,
        "records": (PacketRecord(B, b"b"), PacketRecord(C, b"c\n ")),
        "report": LinkReport(Epoch("e1"), D, 3, asking=True),
    }
    return Packet(**{**fields, **changes})  # type: ignore[arg-type]


PACKETS = {
    "with work": a_packet(),
    "without a report": a_packet(report=None),
    "a first part": a_packet(header=Header(2, A, A, 0), records=(PacketRecord(B, b"b"),)),
    "a last part": a_packet(header=Header(2, A, B, 3), records=(PacketRecord(B, b"b"),)),
    "control": a_packet(header=Header(1, C, C, 0), records=()),
    "a probe": a_packet(header=Header(1, C, C, 0), records=(), report=None, probe=True),
}


class TestMessages:
    @pytest.mark.parametrize("name", PACKETS)
    def test_what_is_written_is_read_back(self, name: str) -> None:
        assert decode(encode(PACKETS[name])) == PACKETS[name]

    @pytest.mark.parametrize("name", PACKETS)
    def test_every_bit_and_every_length_is_watched(self, name: str) -> None:
        data = encode(PACKETS[name])

        for place in range(len(data)):
            for mangled in (data[:place], data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]):
                with pytest.raises(MangledError):
                    decode(mangled)

    def test_one_that_is_longer_than_the_limit_is_refused(self) -> None:
        data = encode(a_packet())

        assert decode(data, len(data))
        with pytest.raises(MangledError, match="more than"):
            decode(data, len(data) - 1)

    def test_the_envelope_fits_whatever_the_counters_are(self) -> None:
        data = bytes(capacity(MIN_MESSAGE_SIZE) - 12)
        header = Header(MAX_COUNT, Offset(MAX_OFFSET - 1), MAX_OFFSET, MAX_COUNT)
        report = LinkReport(EPOCH, MAX_OFFSET, MAX_COUNT, asking=True)
        packet = Packet(header, EPOCH, (PacketRecord(MAX_OFFSET, data),), report)

        assert header.kind is PacketKind.LAST
        assert len(encode(packet)) <= MIN_MESSAGE_SIZE

    def test_a_size_without_room_for_work_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="at least 512"):
            capacity(MIN_MESSAGE_SIZE - 1)


CONTRADICTIONS = {
    "another last commit": a_packet(header=Header(0, A, D, 0)),
    "a commit before the previous one": a_packet(header=Header(0, B, C, 0)),
    "commits out of order": a_packet(
        records=(PacketRecord(C, b""), PacketRecord(B, b""), PacketRecord(C, b""))
    ),
    "two records in a part": a_packet(header=Header(0, A, A, 0)),
    "a part of what was sent before": a_packet(header=Header(0, C, C, 1), records=(PacketRecord(C, b""),)),
    "a control message with commits": a_packet(records=()),
    "a control message with a sequence": a_packet(header=Header(0, C, C, 1), records=()),
    "an epoch that is none": a_packet(epoch=Epoch("e 1")),
    "an epoch that is too long": a_packet(epoch=Epoch("e" * 49)),
    "a report of no epoch": a_packet(report=LinkReport(Epoch(""), C, 0)),
    "a report of too much": a_packet(report=LinkReport(Epoch("e1"), Offset(MAX_OFFSET + 1), 0)),
    "a report of less than nothing": a_packet(report=LinkReport(Epoch("e1"), Offset(-1), 0)),
    "a count that is too great": a_packet(report=LinkReport(Epoch("e1"), C, MAX_COUNT + 1)),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_message_that_contradicts_itself_is_refused(name: str) -> None:
    with pytest.raises(MangledError):
        decode(encode(CONTRADICTIONS[name]))


def sealed(text: bytes) -> bytes:
    return text + checksum(text)


LINES = {
    "no line": b"doubtless-link-1 control (0-0000923200-0000923200-0) e1 none",
    "another mark": b"doubtless-link-2 control (0-0000923200-0000923200-0) e1 none\n",
    "another kind": b"doubtless-link-1 request (0-0000923200-0000923200-0) e1 none\n",
    "no header": b"doubtless-link-1 control (0-923200-0000923200-0) e1 none\n",
    "a field less": b"doubtless-link-1 control (0-0000923200-0000923200-0)\n",
    "a report less": b"doubtless-link-1 control (0-0000923200-0000923200-0) e1\n",
    "half a report": b"doubtless-link-1 control (0-0000923200-0000923200-0) e1 e2 5\n",
    "an unsure report": b"doubtless-link-1 control (0-0000923200-0000923200-0) e1 e2 5 1 2\n",
    "a report with zeros before": b"doubtless-link-1 control (0-0000923200-0000923200-0) e1 e2 05 1 0\n",
    "other letters": "doubtless-link-1 control (0-0000923200-0000923200-0) é1 none\n".encode(),
    "work where none is announced": b"doubtless-link-1 control (0-0000923200-0000923200-0) e1 none\n"
    + pack([PacketRecord(B, b"")]),
    "no work where it is announced": b"doubtless-link-1 data (0-0000923200-0000923200-0) e1 none\n",
}


def test_a_line_that_is_right_is_read() -> None:
    text = b"doubtless-link-1 control (0-0000923200-0000923200-0) e1 e2 5 1 0\n"

    assert decode(sealed(text)) == Packet(
        Header(0, A, A, 0), Epoch("e1"), (), LinkReport(Epoch("e2"), Offset(5), 1)
    )


@pytest.mark.parametrize("name", LINES)
def test_a_line_that_is_wrong_is_refused(name: str) -> None:
    with pytest.raises(MangledError):
        decode(sealed(LINES[name]))
