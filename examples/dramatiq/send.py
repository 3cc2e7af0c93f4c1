from pathlib import Path

from shop import broker, ship

for _ in range(2):  # two messages, one order
    ship.send("order-1")
broker.join("default")
print(Path("shipped.txt").read_text(), end="")
