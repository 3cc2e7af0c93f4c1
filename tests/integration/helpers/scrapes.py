"""The answers of a process to monitoring, as an HTTP client reads them."""

from http.client import HTTPConnection

from prometheus_client.parser import text_string_to_metric_families


def ask(address: str, path: str) -> tuple[int, str]:
    """Return status and body of a path of ``host:port``."""
    host, _, port = address.rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def samples(address: str) -> dict[tuple[str, ...], float]:
    """Return the values of all metrics, by name and the values of the labels, in the order of their names."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(ask(address, "/metrics")[1])
        for sample in family.samples
    }
