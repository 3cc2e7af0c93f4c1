"""The services of a small shop. The pictures show its fleet."""

from datetime import timedelta

from pydantic import BaseModel

from doubtless import Message, Resolution, Resolved, trigger


class Order(BaseModel):
    """An order of a customer."""

    order: str
    customer: str
    amount: float
    currency: str


def ask_bank(uuid: str, trigger_name: str, message: Message) -> Resolved:
    """Say whether the bank has booked a payment."""
    return Resolved(Resolution.IN_DOUBT, f"the bank has no booking of {uuid} yet")


@trigger("payments", name="charge-card", resolver=ask_bank, lease=timedelta(minutes=2))
def charge_card(order: Order) -> None:
    """Charge a card."""


@trigger("parcels", name="ship-parcel")
def ship_parcel(order: Order) -> None:
    """Tell the carrier."""


@trigger("receipts", name="send-receipt")
def send_receipt(order: Order) -> None:
    """Send an email."""


@trigger("stock", name="update-stock")
def update_stock(order: Order) -> None:
    """Count what is left."""


@trigger("partners", name="notify-partner")
def notify_partner(order: Order) -> None:
    """Call the partner's address."""


SERVICES = (charge_card, ship_parcel, send_receipt, update_stock, notify_partner)
