from pathlib import Path

from tasks import ship

sent = [ship.delay("order-1") for _ in range(2)]  # two tasks, one order
for task in sent:
    print(task.get(timeout=60))
print("in the file:", Path("shipped.txt").read_text(), end="")
