"""First steps, without a server: the same message twice, and the service runs once."""

from doubtless import MemoryHistory, Message, trigger


@trigger("orders", name="book-order", history=MemoryHistory())
def book(order: dict[str, str]) -> str:
    """Book one order."""
    return f"booked {order['id']}"


message = Message(body={"id": "N-1"}, uuid="order-1")
for outcome in book.handle_batch([message, message]):
    print(outcome.status, outcome.result, outcome.reason, sep=" | ")
