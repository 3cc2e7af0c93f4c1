"""The wheel in empty environments: plain, with each extra alone, with the oldest and the newest versions.

``.ci/installs`` runs these tests. A program in an environment is a separate process in a separate folder. So
it finds neither the checkout nor the packages that the tests need.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests import ROOT
from tests.acceptance.command_line import CommandLine
from tests.acceptance.docs.in_flight import Site
from tests.acceptance.docs.pages import follow
from tests.fixtures.servers.activemq_server import ActiveMqServer
from tests.fixtures.servers.http_server import HttpServer
from tests.fixtures.servers.kafka_server import KafkaServer
from tests.fixtures.servers.nats_server import NatsServer
from tests.fixtures.servers.spark import need_spark
from tests.fixtures.servers.sqs_server import SqsServer
from tests.fixtures.servers.webhook_server import WebhookServer
from tests.installs.environments import EXTRAS, Environment, Kind, find_python, make

USES = Path(__file__).parent / "uses"

PLAIN = [Kind("plain"), Kind("plain", oldest=True)]
EACH = [Kind(extra, oldest=oldest) for extra in EXTRAS for oldest in (False, True)]
OTHER_PYTHONS = [
    *(Kind("plain", python="3.12"), Kind("all", python="3.13")),
    *(Kind("plain", python="3.14"), Kind("all", python="3.14")),
]

#: The text of an extra that does not install on this version of Python.
LEFT_OUT = "does not run on Python 3.14"

#: The oldest, a middle and the newest supported version of Spark; 3.5 supports Python up to 3.11.
SPARKS = [Kind("spark", oldest=True), Kind("spark", pinned=("pyspark==4.0.*",)), Kind("spark")]

#: The error of a module that needs a newer Spark.
TOO_OLD = re.compile(r"needs PySpark 4\.\d or newer, and this is [34]\.\d")

#: The drivers that modules behind a package's public face import, and the extras that install these drivers.
DRIVERS = {
    "pytest": "contract",
    "celery": "celery",
    "confluent_kafka": "kafka",
    "nats": "nats",
    "boto3": "sqs",
    "botocore": "sqs",
    "httpx": "http",
    "psycopg": "postgres",
    "pyspark": "spark",
    "prometheus_client": "metrics",
    "opentelemetry": "otel",
    "cryptography": "encryption",
    "starlette": "dashboard",
    "jinja2": "dashboard",
    "markupsafe": "dashboard",
    "uvicorn": "dashboard",
}

#: Two messages for a queue; the second is a copy.
ORDERS = '{"headers": {"uuid": "order-1"}, "body": "{}"}\n' * 2


def each_of(*kinds: Kind) -> pytest.MarkDecorator:
    """Run a test in environments of these kinds; each is made once."""
    told = [pytest.param(kind, id=str(kind), marks=pytest.mark.xdist_group(str(kind))) for kind in kinds]
    return pytest.mark.parametrize("environment", told, indirect=True)


@pytest.fixture(scope="module")
def made() -> dict[Kind, Environment]:
    """The environments that there are by now."""
    return {}


@pytest.fixture
def environment(
    request: pytest.FixtureRequest, made: dict[Kind, Environment], tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    """An environment of the kind that the test asks for."""
    kind: Kind = request.param
    if find_python(kind.python) is None:
        pytest.skip(f"NOT TESTED: Python {kind.python} is not on this machine, and uv could not bring it")
    if kind not in made:
        made[kind] = make(kind, tmp_path_factory.mktemp("environment") / "venv")
    return made[kind]


def use(environment: Environment, folder: Path, program: str, *words: str) -> str:
    """Run one of the programs of ``uses/`` in a folder."""
    shutil.copy(USES / program, folder)
    return environment.run("python", program, *words, folder=folder).stdout


def has(environment: Environment, extra: str) -> bool:
    """Whether an extra is installed, or came with another: old Dramatiq needs the client of Prometheus."""
    if extra == "metrics" and environment.has_distribution("prometheus_client"):
        return True
    if is_left_out(environment, extra):
        return False
    return environment.kind.extra in (extra, "all") and extra != "contract"


def is_left_out(environment: Environment, extra: str) -> bool:
    """Whether an extra brings nothing on this version of Python."""
    return extra == "amqp" and environment.kind.python == "3.14"


@each_of(*PLAIN, *EACH, *OTHER_PYTHONS)
def test_every_module_imports_unless_it_is_of_an_extra_that_is_missing(
    environment: Environment, tmp_path: Path
) -> None:
    refused: dict[str, list[str]] = json.loads(use(environment, tmp_path, "everything.py"))

    for module, (error, text) in refused.items():
        if environment.kind.oldest and has(environment, "spark") and TOO_OLD.search(text):
            continue
        if is_left_out(environment, "amqp") and LEFT_OUT in text:
            continue
        # Faces name the extra; a module behind one is reached through it, and may name the driver.
        named = re.search(r"pip install 'doubtless\[(\w+)\]'$", text)
        driver = re.fullmatch(r"No module named '(\w+)'", text)
        extra = named[1] if named is not None else DRIVERS.get(driver[1] if driver is not None else "")
        assert extra is not None, f"{module}: {error}: {text}"
        assert not has(environment, extra), f"{module}: {error}: {text}"


@each_of(*PLAIN, *EACH, *OTHER_PYTHONS)
def test_what_needs_an_extra_says_which_where_it_is_missing(environment: Environment, tmp_path: Path) -> None:
    said: dict[str, list[str]] = json.loads(use(environment, tmp_path, "asking.py"))

    for extra, answers in said.items():
        # If the declaration of a trigger is refused, the error also names the user's line.
        telling = rf"MissingExtraError: .*pip install 'doubtless\[{extra}\]'( \(asking\.py, line \d+\))?"
        if is_left_out(environment, extra):
            telling = rf"ConfigurationError: .*{LEFT_OUT}.*"
        refused = [re.fullmatch(telling, answer) is not None for answer in answers]
        assert refused == [not has(environment, extra)] * len(answers), answers


@each_of(*PLAIN)
def test_the_manual_page_is_where_man_looks(environment: Environment) -> None:
    assert (environment.programs.parent / "share" / "man" / "man1" / "doubtless.1").stat().st_size > 0


@each_of(*PLAIN, *OTHER_PYTHONS)
def test_the_demo_accounts_for_every_line(environment: Environment, tmp_path: Path) -> None:
    demo = environment.run("doubtless", "demo", "--count", "300", "--json", "--no-spark", folder=tmp_path)

    summary = json.loads(demo.stdout)
    assert (summary["mistakes"], summary["booked_once"], summary["in_doubt"]) == ([], 300, 0)


@each_of(*PLAIN, *OTHER_PYTHONS)
@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_what_a_page_tells_to_copy_and_type_does_what_it_says(
    environment: Environment, tmp_path: Path, redis_url: str, page: str
) -> None:
    follow(ROOT / page, tmp_path, redis_url, environment.settings(tmp_path))


@each_of(PLAIN[0])
def test_the_shop_sells_once_while_copies_come(
    environment: Environment, tmp_path: Path, redis_url: str
) -> None:
    doubtless = CommandLine(
        tmp_path,
        program=[str(environment.programs / "doubtless")],
        environment=environment.settings(tmp_path),
    )

    Site(doubtless, redis_url).sell_while_copies_come()


@each_of(Kind("plain", pinned=("pytest",)), Kind("plain", oldest=True, pinned=("pytest",)))
def test_a_new_service_runs_and_passes_its_tests(environment: Environment, tmp_path: Path) -> None:
    environment.run("doubtless", "init", "shop", folder=tmp_path)
    shop = tmp_path / "shop"

    environment.run("doubtless", "send", "orders", "orders.jsonl", folder=shop)
    ran = environment.run("doubtless", "run", "orders", "--until-idle", "1", "--json", folder=shop)
    environment.run("python", "-m", "pytest", "-q", folder=shop)

    assert json.loads(ran.stdout)[0]["ok"] == 2


@each_of(*PLAIN)
def test_a_sql_history_needs_no_extra(environment: Environment, tmp_path: Path) -> None:
    assert use(environment, tmp_path, "histories.py", "sqlite:///books.db", "blocking") == "NEW DUPLICATE"


@each_of(Kind("asyncio"), Kind("asyncio", oldest=True))
def test_asyncio_brings_sqlite_for_asyncio(environment: Environment, tmp_path: Path) -> None:
    assert use(environment, tmp_path, "histories.py", "sqlite:///books.db", "asyncio") == "NEW DUPLICATE"


@each_of(Kind("postgres"), Kind("postgres", oldest=True))
def test_postgres_brings_postgresql_blocking_and_for_asyncio(
    environment: Environment, tmp_path: Path, postgres_url: str
) -> None:
    assert use(environment, tmp_path, "histories.py", postgres_url, "blocking") == "NEW DUPLICATE"
    assert use(environment, tmp_path, "histories.py", postgres_url, "asyncio") == "NEW DUPLICATE"


@each_of(Kind("http"), Kind("http", oldest=True))
def test_http_brings_the_webhook_and_the_question_to_a_server(
    environment: Environment, tmp_path: Path
) -> None:
    with WebhookServer() as hook, HttpServer() as server:
        server.statuses["/orders/one"] = 200
        said = use(environment, tmp_path, "webhook.py", hook.url, server.url)

    assert said == "True DUPLICATE"
    assert [posted.path for posted in hook.posted] == ["/events"]


@each_of(Kind("spark"), Kind("spark", oldest=True))
def test_spark_brings_the_pipeline_at_the_end_of_the_demo(environment: Environment, tmp_path: Path) -> None:
    need_spark()

    demo = environment.run("doubtless", "demo", "--count", "50", "--json", folder=tmp_path)

    summary = json.loads(demo.stdout)
    assert (summary["mistakes"], summary["spark"]["mistakes"]) == ([], [])
    assert summary["spark"]["new"] == 200


@each_of(Kind("celery"), Kind("celery", oldest=True))
def test_celery_brings_its_guard(environment: Environment, tmp_path: Path, redis_url: str) -> None:
    assert use(environment, tmp_path, "guarded_task.py", redis_url) == "booked 1 booked 1 1"


@each_of(
    *(Kind(host, oldest=oldest) for host in ("dramatiq", "taskiq", "faststream") for oldest in (False, True))
)
def test_a_host_brings_its_guard(environment: Environment, tmp_path: Path, redis_url: str) -> None:
    program = f"guarded_{environment.kind.extra}.py"
    assert use(environment, tmp_path, program, redis_url) == "1"


@each_of(*SPARKS)
def test_micro_batches_come_out_the_same_on_each_spark(
    environment: Environment, tmp_path: Path, redis_url: str
) -> None:
    need_spark()

    said = json.loads(use(environment, tmp_path, "batches.py", redis_url))

    counts = [[2, 1, 0, 2], [1, 1, 1, 0]]
    for storage in ("memory_and_disk", "none"):
        assert (sorted(said[storage]["given"]), said[storage]["counts"]) == (["a", "b", "c", "d"], counts)


@each_of(Kind("rabbitmq"), Kind("rabbitmq", oldest=True))
def test_rabbitmq_brings_its_provider(environment: Environment, tmp_path: Path, rabbitmq_url: str) -> None:
    send_and_run(environment, tmp_path, rabbitmq_url)


@each_of(Kind("kafka"), Kind("kafka", oldest=True))
def test_kafka_brings_its_provider(environment: Environment, tmp_path: Path) -> None:
    with KafkaServer() as kafka:
        kafka.create("orders", 1)
        send_and_run(environment, tmp_path, kafka.url)


@each_of(Kind("nats"), Kind("nats", oldest=True))
def test_nats_brings_its_provider(environment: Environment, tmp_path: Path) -> None:
    with NatsServer() as nats:
        send_and_run(environment, tmp_path, nats.url)


@each_of(Kind("sqs"), Kind("sqs", oldest=True))
def test_sqs_brings_its_provider(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqsServer(monkeypatch) as sqs:
        send_and_run(environment, tmp_path, sqs.url)


@each_of(Kind("amqp"), Kind("amqp", oldest=True))
def test_amqp_brings_its_provider(environment: Environment, tmp_path: Path, amqp_url: str) -> None:
    send_and_run(environment, tmp_path, amqp_url)


@each_of(Kind("jms"), Kind("jms", oldest=True))
def test_jms_brings_its_provider(environment: Environment, tmp_path: Path, activemq: ActiveMqServer) -> None:
    send_and_run(environment, tmp_path, activemq.url)


def send_and_run(environment: Environment, folder: Path, provider: str) -> None:
    """Send a message and its copy through a broker, and let a service have them."""
    shutil.copy(USES / "shop.py", folder)
    (folder / "orders.jsonl").write_text(ORDERS, encoding="utf-8")
    run = ("run", "shop", "--until-idle", "2", "--provider", provider)

    environment.run("doubtless", *run, folder=folder)  # declares the queue
    environment.run("doubtless", "send", "orders", "orders.jsonl", "--provider", provider, folder=folder)
    environment.run("doubtless", *run, folder=folder)

    assert (folder / "books.txt").read_text(encoding="utf-8") == "order-1\n"


def test_the_command_that_an_error_names_installs_what_is_missing(tmp_path: Path) -> None:
    environment = make(Kind("plain"), tmp_path / "venv", pip=True)
    said: dict[str, list[str]] = json.loads(use(environment, tmp_path, "asking.py"))
    [command] = {answer.rpartition("; ")[2] for answer in said["http"]}

    program, *words = command.replace("'", "").split()
    environment.run(program, *words, folder=tmp_path)

    assert set(json.loads(use(environment, tmp_path, "asking.py"))["http"]) == {""}


@each_of(*(kind for kind in EACH if kind.extra == "dashboard"))
def test_the_dashboard_has_its_pages_and_what_they_load(environment: Environment, tmp_path: Path) -> None:
    assert use(environment, tmp_path, "dashboard_page.py") == "200 200 200 200 200"
