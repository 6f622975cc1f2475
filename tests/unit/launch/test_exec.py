"""What mpirun asks its launch agent for is its daemon, and nothing else."""

from __future__ import annotations

import pytest

from jetq.errors import UsageError
from jetq.launch.exec import LaunchRequest

#: As Open MPI 5.0.11 and 4.1.4 (with a prefix) give it, shortened.
FIVE = (
    "10.0.0.2 PRTE_PREFIX=/opt/x;export PRTE_PREFIX;LD_LIBRARY_PATH=/opt/x/lib:$LD_LIBRARY_PATH;export "
    'LD_LIBRARY_PATH;/opt/x/bin/prted --daemonize --allow-run-as-root --prtemca ess "env" --prtemca prte_hnp_uri '
    '"prterun-a-1@0.0;tcp://10.0.0.1:46581:24" --prtemca prte_if_include "eth1" --prtemca plm "ssh"'
)
FOUR = (
    "10.0.0.2    OPAL_PREFIX=/usr ; export OPAL_PREFIX; PATH=/opt/x/bin:$PATH ; export PATH ; "
    'LD_LIBRARY_PATH=/opt/x/lib:${LD_LIBRARY_PATH:-} ; export LD_LIBRARY_PATH ;   /opt/x/bin/orted -mca ess "env" '
    '-mca orte_hnp_uri "1.0;tcp://10.0.0.1:39801;tcp6://[fd00::1]:35165" --mca oob_tcp_if_include "10.0.0.0/24"'
)


def test_a_member_starts_its_own_daemon_on_its_own_interface():
    request = LaunchRequest.parse(FIVE.split(" "))

    assert (request.host, request.daemon) == ("10.0.0.2", "prted")
    assert request.argv("/usr/bin/prted", "enP8p1s0") == (
        *("/usr/bin/prted", "--allow-run-as-root", "--prtemca", "ess", "env", "--prtemca", "prte_hnp_uri"),
        *("prterun-a-1@0.0;tcp://10.0.0.1:46581:24", "--prtemca", "prte_if_include", "enP8p1s0"),
        *("--prtemca", "plm", "ssh"),
    )


@pytest.mark.parametrize("line", [FIVE, FOUR])
def test_where_the_login_shell_is_sh_the_line_is_in_brackets_and_means_the_same(line):
    host, _, rest = line.partition(" ")

    asked = LaunchRequest.parse([host, f"( test ! -r ./.profile || . ./.profile; {rest} )"])

    assert asked == LaunchRequest.parse(line.split(" "))


def test_the_daemon_of_open_mpi_4_keeps_the_network():
    request = LaunchRequest.parse(FOUR.split(" "))

    assert (request.host, request.daemon) == ("10.0.0.2", "orted")
    assert request.argv("orted", "enP8p1s0") == (
        *("orted", "-mca", "ess", "env", "-mca", "orte_hnp_uri"),
        *("1.0;tcp://10.0.0.1:39801;tcp6://[fd00::1]:35165", "--mca", "oob_tcp_if_include", "10.0.0.0/24"),
    )


@pytest.mark.parametrize("line", [FIVE, FOUR], ids=["5", "4"])
def test_what_is_put_around_it_for_a_user_of_plain_sh_changes_nothing(line):
    host, _, rest = line.partition(" ")

    assert LaunchRequest.parse([host, f"( test ! -r ./.profile || . ./.profile;  {rest} )"]) == LaunchRequest.parse(
        line.split(" ")
    )


def test_a_bare_orted_is_found():
    assert LaunchRequest.parse(["h", " orted", "-mca", "plm", '"rsh"']).args == ("-mca", "plm", "rsh")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["10.0.0.2"],
        ["10.0.0.2", ""],
        ["10.0.0.2", ";;"],
        ["10.0.0.2", "rm", "-rf", "/"],
        ["10.0.0.2", "/opt/x/prted-not", "x"],
        ["10.0.0.2", "rm -rf / ; /bin/prted x"],
        ["10.0.0.2", "( test ! -r ./.profile || . ./.profile"],
        ["10.0.0.2", "( test ! -r ./.profile || . ./.profile; rm -rf / ; prted x )"],
        ["10.0.0.2", "A=$(rm x) ; prted"],
        ["10.0.0.2", "prted x; rm y"],
        ["10.0.0.2", "prted && rm", "y", ";", "true"],
        ["10.0.0.2", 'prted "x'],
        ["10.0.0.2", "export A B; prted"],
    ],
)
def test_nothing_else_is_started(words):
    with pytest.raises(UsageError) as refused:
        LaunchRequest.parse(words)

    assert "\n" not in str(refused.value)
