"""The ledger's buffer: bounded in rows and in bytes, whatever is taken out is free again."""

from fairlead.model.record import Change, Part, Source
from fairlead.store.ledger_buffer import Buffer


def part(weight: int) -> Part:
    return Part((Change("Pod", "Filter", 1, 1, Source.PLUGIN),), weight=weight)


def test_few_rows_of_much_text_have_no_room_either() -> None:
    buffer = Buffer(1000, most_bytes=100)
    assert buffer.put(part(60)) and not buffer.put(part(41)) and buffer.put(part(40))
    assert buffer.put(Part(marks={"Pod": 1})) and buffer.has_state
    batch = buffer.take(1, 1000, state=True)
    assert batch is not None and not buffer.put(part(1)) and not buffer.has_state
    buffer.done(batch)
    assert buffer.rows == 0 and buffer.put(part(400)) and not buffer.put(part(1))
