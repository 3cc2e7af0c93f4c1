"""The names of headers that other publishers write in their own way."""

from triggers.providers.brokers.headers import spelled


def test_names_that_we_know_have_no_case_and_others_keep_theirs() -> None:
    headers = {
        "Content-Type": "a",
        "CONTENT-ENCODING": "b",
        "jmscorrelationid": "c",
        "Uuid": "d",
        "Shop": "e",
    }

    assert spelled(headers) == {
        "content-type": "a",
        "content-encoding": "b",
        "JMSCorrelationID": "c",
        "uuid": "d",
        "Shop": "e",
    }


def test_a_header_in_our_spelling_wins_over_another_one() -> None:
    assert spelled({"UUID": "theirs", "uuid": "ours"}) == {"UUID": "theirs", "uuid": "ours"}
