"""A broker's URL is read once, and written as each library wants it."""

from __future__ import annotations

import pytest

from jetq.errors import BrokerUnfit
from jetq.model.address import Address, shown


def test_a_plain_url_is_the_same_for_all():
    at = Address.parse("redis://me:pw@h:1/2")

    assert at.client_url == at.celery_url == "redis://me:pw@h:1/2"


def test_the_certificate_is_asked_for_unless_the_url_says_otherwise():
    assert Address.parse("rediss://h:1/0").celery_url == "rediss://h:1/0?ssl_cert_reqs=required"
    assert Address.parse("rediss://h:1/0?ssl_ca_certs=f").celery_url.endswith("?ssl_ca_certs=f&ssl_cert_reqs=required")
    assert Address.parse("rediss://h:1/0?ssl_cert_reqs=none").celery_url == "rediss://h:1/0?ssl_cert_reqs=none"


@pytest.mark.parametrize("url", ["unix:///run/s?db=2", "redis+socket:///run/s?virtual_host=2"])
def test_a_unix_socket_has_one_name_for_each_library(url):
    at = Address.parse(url)

    assert (at.client_url, at.celery_url, at.db) == ("unix:///run/s?db=2", "redis+socket:///run/s?virtual_host=2", 2)


def test_sentinels_carry_login_database_and_master():
    at = Address.parse("sentinel://me:pw@a:1/2;sentinel://b;c:3?master_name=m&ssl_cert_reqs=none")

    assert at.sentinels == (("a", 1), ("b", 26379), ("c", 3))
    assert (at.master, at.username, at.password, at.db) == ("m", "me", "pw", 2)
    assert at.celery_url == (
        "sentinel://me:pw@a:1/2;sentinel://me:pw@b:26379/2;sentinel://me:pw@c:3/2?ssl_cert_reqs=none"
    )


@pytest.mark.parametrize(
    "url", ["sentinel://a:1", "sentinel://a:x?master_name=m", "sentinel://a:1/x?master_name=m", "unix:///s?db=x", "h:1"]
)
def test_what_is_incomplete_is_refused(url):
    with pytest.raises(BrokerUnfit):
        Address.parse(url)


def test_passwords_are_hidden_in_what_is_shown():
    assert shown("redis://me:secret@h:1/0") == "redis://me:***@h:1/0"
    assert shown("sentinel://:a@h:1;sentinel://:b@i:2?master_name=m") == (
        "sentinel://:***@h:1;sentinel://:***@i:2?master_name=m"
    )
    assert shown("redis://h:1/0") == "redis://h:1/0"
