"""Every key of the ledger, spelled once.

All keys of a cluster start with ``jetq:{name}:``. The braces are literal: they are a hash tag, so one script's keys
stay together, and one pattern in an access list covers them. kombu and Celery's result backend get the same prefix.

    key (after the prefix)           type    lives                      holds
    job:<id>                         HASH    24 h after its end         the record: see docs/wire.md
    msg:<id>                         STRING  until the job has ended    the exact message that kombu delivers
    jobs                             ZSET    trimmed with the records   job id by time of submission
    node:<name>                      HASH    until forgotten            facts, last beat, views (its indexes)
    nodes                            SET                                node names
    boards                           SET                                board models seen
    leases:<node>                    HASH                               job id -> "slots gpu mem_bytes kind"; load = sum
    cohorts                          HASH                               cohort -> {"labels", "slots", "gpu", "mem"}
    routes                           HASH                               what a publish looks at: "strategy cohort" ->
                                                                        [least, learned or stride, then the boards that
                                                                        have an index of it]; "=task" -> learned speed
                                                                        by board (prior = 1); "?task" that some live
                                                                        nodes lack -> how many know it; declared -> its
                                                                        version
    free:<strategy> <cohort>:<board> ZSET                               nodes with a free slot by score, lowest is next
    pass:<strategy>                  HASH                               stride: node -> pass value; "*": the turn
    node.<name>                      LIST    (+ priority suffix)        messages for the node's tasks lane
    processes.<name>                 LIST    (+ priority suffix)        messages for the node's processes lane
    shared:<cohort>                  LIST    (+ priority suffix)        messages for whichever node has a slot first
    waiting                          ZSET                               unclaimed jobs of the shared lists by time
    due                              ZSET                               jobs that wait for their time (Redis clock, s)
    expiry                           ZSET                               jobs that end if not claimed by then
    tell                             ZSET                               ended jobs that Celery has not been told of
    cancel:<node>                    SET                                claimers the node shall kill
    runs:<task>:<board>              LIST    last 20                    run times (s), newest first
    fresh                            SET                                task names with new run times
    declared                         HASH                               task name -> its jetq options
    leader                           HASH                               node, epoch, term and end of its lease
    broker                           HASH                               run of the server that the leader is sure of
    tasks:<node>                     SET                                task names the node has loaded
    gangs                            ZSET                               gangs that have not ended, by submission time
    streams                          ZSET                               streams that have not ended, by submission time
    secret:<id>                      HASH    until the stream has ended address of a stream, as it is shown -> its
                                                                        credentials (JSON)
    results:<id>                     STREAM  capped; as the record      what a stream saw: r(esult, JSON)
    gang:<id>                        HASH    of one start               what its members say: hello.0, reach.0, ...
    gang.lines:<id>                  STREAM  last 4000; as the record   what its ranks write: a(t), n(ode), r(ank),
                                                                        t(ext); its ids count the lines: 1-0, 2-0, ...
    gang.runs:<name>                 LIST    last 2                     run times (s) that ended well, newest first
    bell                             LIST    1                          something for whoever leads to look at
    ports:<machine>                  HASH    24 h after the last lease  TCP port -> the member that has leased it
    launch:<token>:<address>         HASH    as the records             daemons that a member shall start for mpirun
    launched:<request>               STRING  10 min                     how such a daemon ended
    blob:<sha256>                    STRING  24 h after its last use    a packed workdir (launch/workdir.py)
    upload:<sha256>:<random>         STRING  60 s after its last piece  what has arrived of a blob
"""

from __future__ import annotations

#: kombu's separator between a queue's name and its priority step.
PRIORITY_SEP = "\x06\x16"
#: The only queue name that publishers use; no list of that name ever exists.
ROUTED = "jetq"
#: Where tasks with ``ledger=False`` go: plain Celery, read by the ``plain`` lane only.
PLAIN = "plain"
#: A lane's own queue, by lane.
OWN_QUEUE = {"tasks": "node.", "processes": "processes."}
#: The queues that several nodes read.
SHARED_QUEUE = "shared:"


def prefix(cluster: str) -> str:
    """Return the prefix of all keys of a cluster."""
    return f"jetq:{{{cluster}}}:"


def own_queue(lane: str, node: str) -> str:
    """Return the name (without prefix) of the queue that only this lane of this node reads."""
    return OWN_QUEUE[lane] + node


def shared_queue(cohort: str) -> str:
    """Return the name (without prefix) of a cohort's shared queue."""
    return SHARED_QUEUE + cohort


def with_priority(queue: str, priority: int) -> str:
    """Return the list that holds a queue's messages of one priority step."""
    return f"{queue}{PRIORITY_SEP}{priority}" if priority else queue
