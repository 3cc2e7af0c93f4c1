from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from doubtless import Consumer
from shop.services import book


class Command(BaseCommand):
    help = "Run the triggers of the shop"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--until-idle", type=float)

    def handle(self, *, until_idle: float | None, **others: object) -> None:
        url = settings.DOUBTLESS_URL
        consumer = Consumer([book], url, history=url)
        consumer.run(signals=True, until_idle=until_idle)
