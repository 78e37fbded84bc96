"""The fast path from a text to its constants equals the slow path: same family, same values, or the same error."""

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline
from eddyline.local.connection import Connection
from eddyline.session.templates import cut

SETUP = """
CREATE STREAM trades (
  symbol STRING, price DOUBLE, qty INT, big BIGINT, tiny TINYINT, real FLOAT, day DATE, ts TIMESTAMP
)
  WATERMARK ts;
CREATE STREAM quotes (symbol STRING, bid DOUBLE, ts TIMESTAMP) WATERMARK ts;
"""
EXAMPLES = 3000 if os.environ.get("EDDYLINE_NIGHTLY") else 300

# I, D, S, T, L: a whole number, any number, a string, a time in quotes, a LIKE pattern.
TEMPLATES = [
    "SELECT symbol FROM trades WHERE price > {D}",
    "SELECT symbol FROM trades WHERE price > {I}",
    "SELECT symbol FROM trades WHERE qty > {I}",
    "SELECT symbol FROM trades WHERE qty > {D}",
    "SELECT symbol FROM trades WHERE big = {I}",
    "SELECT symbol FROM trades WHERE tiny < {I}",
    "SELECT symbol FROM trades WHERE real < {I} OR real > {D}",
    "SELECT symbol FROM trades WHERE qty > -{I}",
    "SELECT symbol FROM trades WHERE qty + -{I} > {I}",
    "SELECT symbol FROM trades WHERE qty + {I} > {I}",
    "SELECT symbol FROM trades WHERE price * {I} - {D} > {D}",
    "SELECT symbol FROM trades WHERE qty % {I} = {I}",
    "SELECT symbol FROM trades WHERE qty / {I} > {D}",
    "SELECT symbol FROM trades WHERE symbol = {S}",
    "SELECT symbol FROM trades WHERE symbol <> {S} AND price BETWEEN {D} AND {I}",
    "SELECT symbol FROM trades WHERE symbol IN ({S}, {S}, {S})",
    "SELECT symbol FROM trades WHERE qty IN ({I}, {I})",
    "SELECT symbol FROM trades WHERE price IN ({I}, {D})",
    "SELECT symbol FROM trades WHERE qty IN ({I}, NULL, {I})",
    "SELECT symbol FROM trades WHERE {I} IN (qty, big)",
    f"SELECT symbol FROM trades WHERE symbol IN ({', '.join(['{S}'] * 18)})",
    f"SELECT symbol FROM trades WHERE qty NOT IN ({', '.join(['{I}', '-{I}'] * 9)})",
    f"SELECT symbol FROM trades WHERE price IN ({', '.join(['{I}', '{D}'] * 9)})",
    f"SELECT symbol FROM trades WHERE qty IN ({', '.join(['{I}'] * 17)}, NULL) AND price > {{D}}",
    f"SELECT symbol FROM trades WHERE ts IN ({', '.join(['{T}'] * 17)}) OR qty = {{I}}",
    f"SELECT COUNT(*) FROM trades WHERE tiny IN ({', '.join(['{I}'] * 17)})",
    "SELECT symbol FROM trades WHERE {I} < {I}",
    "SELECT symbol FROM trades WHERE symbol LIKE {L}",
    "SELECT symbol FROM trades WHERE NOT symbol LIKE {L} OR symbol IS NULL",
    "SELECT symbol FROM trades WHERE symbol NOT LIKE {L}",
    "SELECT symbol FROM trades WHERE symbol LIKE {L} ESCAPE '!'",
    "SELECT symbol FROM trades WHERE symbol NOT LIKE {L} ESCAPE '%'",
    "SELECT symbol FROM trades WHERE symbol LIKE {L} ESCAPE {S}",
    "SELECT symbol FROM trades WHERE symbol LIKE {L} {S}",
    "SELECT symbol FROM trades WHERE qty IS DISTINCT FROM {I}",
    "SELECT symbol FROM trades WHERE symbol IS NOT DISTINCT FROM {S}",
    "SELECT symbol FROM trades WHERE qty > TRY_CAST({S} AS INT)",
    "SELECT symbol FROM trades WHERE qty > TRY_CAST('{I}' AS INT) OR symbol = {S}",
    "SELECT symbol FROM trades WHERE ts > {T}",
    "SELECT symbol FROM trades WHERE ts > {S}",
    "SELECT symbol FROM trades WHERE day = {T}",
    "SELECT symbol FROM trades WHERE ts > TIMESTAMP {T}",
    "SELECT symbol FROM trades WHERE day > DATE {T}",
    "SELECT symbol FROM trades WHERE price > {S}",
    "SELECT symbol FROM trades WHERE qty = {S}",
    "SELECT symbol FROM trades WHERE qty = '{I}'",
    "SELECT t.symbol FROM trades t JOIN quotes q ON t.ts - q.ts BETWEEN INTERVAL {I} SECONDS AND INTERVAL {D} MINUTES",
    "SELECT t.symbol FROM trades t JOIN quotes q ON abs(t.ts - q.ts) <= INTERVAL '{I}' SECOND",
    "SELECT t.symbol FROM trades t JOIN quotes q ON t.ts - q.ts < INTERVAL -{I} SECONDS",
    "SELECT t.symbol FROM trades t JOIN quotes q ON t.ts - q.ts < INTERVAL '{I} seconds'",
    "SELECT t.symbol FROM trades t JOIN quotes q ON t.ts < q.ts + INTERVAL {I} SECONDS * {I}",
    "SELECT t.symbol FROM trades t JOIN quotes q ON t.price - q.bid BETWEEN -{D} AND {D}",
    "SELECT symbol FROM trades [RANGE {I} SECONDS]",
    "SELECT symbol FROM trades [RANGE {D} HOURS] WHERE price > {D}",
    "SELECT symbol FROM trades [RANGE INTERVAL {I} MINUTES] t",
    "SELECT symbol FROM trades [ROWS {I}]",
    "SELECT symbol FROM trades [ROWS '{I}']",
    "SELECT symbol, {I} AS a, {D} AS b, {S} AS c FROM trades",
    "SELECT symbol, {I}, {S} FROM trades",
    "SELECT symbol AS {S} FROM trades",
    "SELECT concat(symbol, {S}, {I}, {D}) FROM trades",
    "SELECT symbol || {S} FROM trades",
    "SELECT coalesce(qty, {I}) FROM trades",
    "SELECT least(tiny, {I}), greatest(price, {I}) FROM trades",
    "SELECT round(price, {I}) FROM trades",
    "SELECT abs({I}), abs(-{I}) FROM trades",
    "SELECT CASE WHEN price > {D} THEN {I} ELSE {I} END FROM trades",
    "SELECT CASE WHEN price > {D} THEN {I} ELSE {D} END FROM trades",
    "SELECT CASE symbol WHEN {S} THEN {S} ELSE {S} END FROM trades",
    "SELECT if(qty > {I}, {I}, {I}) FROM trades",
    "SELECT CAST({I} AS STRING), CAST({I} AS DOUBLE), CAST({D} AS INT), CAST({I} AS TINYINT) FROM trades",
    "SELECT CAST({S} AS INT) FROM trades",
    "SELECT CAST('true' AS BOOLEAN) AND price > {D} FROM trades",
    "SELECT symbol, COUNT(*) FROM trades GROUP BY {I}",
    "SELECT symbol, qty, COUNT(*) FROM trades GROUP BY {I}, {I}",
    "SELECT symbol, SUM(qty) FROM trades GROUP BY symbol HAVING SUM(qty) > {I}",
    "SELECT symbol, SUM(qty * {I}) FROM trades GROUP BY symbol HAVING SUM(qty * {I}) > {I}",
    "SELECT SUM(qty + {I}) AS a, SUM(qty + {I}) AS b FROM trades",
    "SELECT SUM({I}), MIN({I}), COUNT({I}), AVG({I}), MAX({S}) FROM trades",
    "SELECT floor(price / {I}), COUNT(*) FROM trades GROUP BY floor(price / {I})",
    "SELECT qty + {I} AS k, COUNT(*) FROM trades GROUP BY qty + {I}",
    "SELECT SUM(CASE WHEN symbol = {S} THEN 1 ELSE 0 END), SUM(CASE WHEN symbol = {S} THEN 1 ELSE 0 END) FROM trades",
    "SELECT symbol FROM trades WHERE qty > {I} UNION ALL SELECT symbol FROM quotes WHERE bid > {D}",
    "SELECT qty FROM trades UNION ALL SELECT {I} FROM quotes",
    "SELECT x.symbol FROM (SELECT symbol, price * {D} AS p FROM trades WHERE qty > {I}) x WHERE x.p > {D}",
    "SELECT DISTINCT symbol FROM trades WHERE price > {D} -- {I}",
    "SELECT symbol /* {I} */ FROM trades WHERE price > {D}",
    "SELECT symbol {{# {I} #}} FROM trades WHERE price > {D}",
    "SELECT `symbol` FROM trades WHERE `price` > {D}",
    "SELECT symbol AS `x {I}` FROM trades WHERE price > {D}",
    "SELECT symbol FROM trades WHERE price > {D};",
    "SELECT symbol FROM trades\n\tWHERE price   >\r\n {D}",
    "select SYMBOL from TRADES where PRICE > {D}",
    "SELECT t2.symbol FROM trades t2 WHERE t2.price > {D} AND t2.qty = {I}",
    "SELECT symbol FROM trades WHERE price > {I}.",
    "SELECT symbol FROM trades WHERE price > .{I}",
    "SELECT symbol FROM trades WHERE big > {I}L",
    "SELECT symbol FROM trades WHERE price > {D}D",
    "SELECT symbol FROM trades WHERE price > 1_{I}",
    "SELECT symbol FROM trades WHERE price > ?i",
    "SELECT symbol FROM trades WHERE price > {I} AND symbol = '?'",
    "SELECT symbol FROM trades WHERE symbol = {S} {S}",
    "SELECT symbol FROM trades WHERE symbol = {S}{S}",
    "SELECT symbol FROM trades WHERE qty = {I} AND symbol = 'a' {S}",
    "SELECT symbol || {S} {S}, COUNT(*) FROM trades GROUP BY symbol || {S} {S}",
    "SELECT symbol FROM trades WHERE symbol = r{S}",
    "SELECT symbol FROM trades WHERE symbol = {S} AND symbol > '?i'",
]

whole = st.one_of(
    st.integers(0, 12),
    st.sampled_from(
        [2**7, 2**15, 2**31 - 1, 2**31, 2**31 + 1, 2**32, 2**63 - 1, 2**63, 2**64, 10**25, 10**400, 10**5000]
    ),
).map(lambda n: str(n) if n < 10**30 else f"1{'0' * (400 if n < 10**1000 else 5000)}") | st.sampled_from(["007", "00"])
decimal = st.one_of(
    whole,
    st.sampled_from(["1.5", "0.0", "1e3", "1E3", "1e-3", "2.5e+10", "1e400", "1e-400", "3.00", "12345678901234567.89"]),
)
CHARS = "ab XY%_'\\\"`-;:?/*{#}019.é🙂\n\t"
string = st.one_of(
    st.sampled_from(
        ["''", "'a'", "'A'", "'?'", "'5'", "'--'", "'/* x */'", "';'", "'it''s'", "'a\\'b'", "' '", "'\0'"]
    ),
    st.text(CHARS, max_size=6).map(lambda s: "'" + s.replace("\\", "\\\\").replace("'", "''") + "'"),
    st.text(CHARS, max_size=6).map(lambda s: f"'{s}'"),
)
moment = st.sampled_from(
    [
        "'2026-01-01'",
        "'2026-01-01 10:00:00'",
        "'2026-02-30'",
        "'noon'",
        "' 2026-01-01 '",
        "'2026-01-01T00:00:00Z'",
        "''",
    ]
)
pattern = st.sampled_from(["'a%'", "'a!%'", "'!!%%'", "'a!b'", "'%'", "'_b%'", "'100\\\\%'", "'\\%x'", "''", "'%''%'"])
LITERALS = {"I": whole, "D": decimal, "S": string, "T": moment, "L": pattern}
HEADS = [
    "CREATE CONTINUOUS QUERY {} AS ",
    "create  continuous\nquery {}\tas ",
    "CREATE CONTINUOUS QUERY {} WITH (emit = 'all') AS ",
]


def fill(draw: st.DrawFn, template: str) -> str:
    parts = []
    rest = template.replace("{{", "\1").replace("}}", "\2")
    while "{" in rest:
        before, _, after = rest.partition("{")
        parts += [before, draw(LITERALS[after[0]])]
        rest = after[2:]
    return "".join([*parts, rest]).replace("\1", "{").replace("\2", "}")


@st.composite
def texts_of_one_template(draw: st.DrawFn) -> list[str]:
    template, head = draw(st.sampled_from(TEMPLATES)), draw(st.sampled_from(HEADS))
    return [head.format(f"q{i}") + fill(draw, template) for i in range(draw(st.integers(2, 5)))]


def fresh() -> Connection:
    db = eddyline.connect()
    db.execute(SETUP)
    return db


def outcome(db: Connection, text: str, name: str) -> Any:
    """What became of a text: the shape and options of its family with the query's own values, or its error."""
    try:
        db.execute(text)
    except eddyline.Error as e:
        return type(e), e.message
    family, query = db.registry.query(name)
    rows = family.queries.rows()
    place = int(rows.positions(rows.ids[rows.ids == query])[0])
    assert rows.names[place].as_py() == name
    return family.bound.query, family.bound.params, dict(family.options), [repr(p[place].as_py()) for p in rows.params]


@given(texts_of_one_template())
@settings(max_examples=EXAMPLES, deadline=None, print_blob=True)
def test_a_known_template_gives_what_a_connection_gives_that_never_saw_it(texts: list[str]) -> None:
    seen = fresh()
    for i, text in enumerate(texts):
        assert outcome(seen, text, f"q{i}") == outcome(fresh(), text, f"q{i}"), texts[: i + 1]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("qty + -5 > 0", "qty + -2147483648 > 0"),
        ("ts - ts > INTERVAL 1.5 MINUTES", "ts - ts > INTERVAL 1e3 MINUTES"),
        ("qty > -5", "qty > -9223372036854775808"),
        ("price > 5", f"price > 1{'0' * 400}"),
        ("price > 5", "price > ?i"),
        ("price > 5 AND symbol = '?'", "price > ?i AND symbol = '?'"),
        ("symbol = 'a'", "symbol = '\ud800'"),
        ("symbol = 'a'", "symbol = ''"),
        ("price > 5", "price > \u0665"),
        ("big > 5", f"big > {'9' * 5000}"),
        ("ts > '2026-01-01'", "ts > 'noon'"),
        ("price > '5'", "price > 'five'"),
        ("symbol = 'a' 'b'", "symbol = 'a' 'c'"),
        ("symbol = 'a' 'b'", "symbol = 'b' 'b'"),
        ("symbol = 'it''s'", "symbol = 'it' 's'"),
        ("symbol LIKE 'a!%' ESCAPE '!'", "symbol LIKE 'a!%' ESCAPE '#'"),
        ("symbol LIKE 'a!%' ESCAPE '!'", "symbol LIKE 'a!b' ESCAPE '!'"),
        ("symbol LIKE 'a!%' ESCAPE '!'", "symbol LIKE 'b!%' ESCAPE '!'"),
        ("qty > TRY_CAST('5' AS INT)", "qty > TRY_CAST('x' AS INT)"),
        ("qty > TRY_CAST('x' AS INT)", "qty > TRY_CAST('5' AS INT)"),
    ],
)
def test_a_text_that_only_looks_like_a_known_one_is_not_taken_for_it(first: str, then: str) -> None:
    texts = [
        f"CREATE CONTINUOUS QUERY q{i} AS SELECT symbol FROM trades WHERE {x}" for i, x in enumerate((first, then))
    ]
    seen = fresh()
    outcome(seen, texts[0], "q0")
    assert outcome(seen, texts[1], "q1") == outcome(fresh(), texts[1], "q1")
    seen.advance("2026-01-01")  # nothing was left half registered


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("floor(price / 10), COUNT(*) FROM trades GROUP BY floor(price / 10)", (10, 20)),
        ("SUM(qty * 2) FROM trades HAVING SUM(qty * 2) > 1", (2, 3)),
    ],
)
def test_keys_and_aggregates_are_recognised_by_their_constants(first: str, then: tuple[int, int]) -> None:
    seen = fresh()
    same, other = str(then[0]), str(then[1])
    outcome(seen, f"CREATE CONTINUOUS QUERY q0 AS SELECT {first}", "q0")
    text = f"CREATE CONTINUOUS QUERY q1 AS SELECT {other.join(first.rsplit(same, 1))}"
    assert outcome(seen, text, "q1") == outcome(fresh(), text, "q1")


def test_the_usual_texts_do_take_the_fast_path() -> None:
    """What the other tests compare would be equal, too, if no template were ever learnt."""
    db = fresh()
    for where in (
        "price > 1.5",
        "qty = 3 AND symbol = 'A'",
        "ts > '2026-01-01'",
        "symbol LIKE 'A%' OR price IN (1, 2)",
    ):
        text = (
            f"CREATE CONTINUOUS QUERY x{abs(hash(where))} AS SELECT symbol FROM trades [RANGE 5 SECONDS] WHERE {where}"
        )
        db.execute(text)
        known = cut(text)
        assert known is not None
        assert db.registry.templates.values(known, db.catalog.version) is not None


def test_a_change_of_the_catalog_forgets_what_texts_meant() -> None:
    db = fresh()
    text = "CREATE CONTINUOUS QUERY {} AS SELECT symbol FROM trades WHERE price > {}"
    db.execute(text.format("a", 1))
    db.execute("DROP CONTINUOUS QUERY a")
    db.execute("DROP STREAM trades")
    with pytest.raises(eddyline.BindError, match="'trades'"):
        db.execute(text.format("b", 2))
    db.execute("CREATE STREAM trades (symbol STRING, price STRING, ts TIMESTAMP) WATERMARK ts")
    with pytest.raises(eddyline.BindError, match="compared"):
        db.execute(text.format("c", 3))


def test_booleans_are_constants_too() -> None:
    db = eddyline.connect()
    db.execute("CREATE STREAM s (f BOOLEAN, ts TIMESTAMP) WATERMARK ts DELAY OF INTERVAL 0 SECONDS")
    for i, word in enumerate(["TRUE", "FALSE", "true", "TRUE", "false"]):
        db.execute(f"CREATE CONTINUOUS QUERY q{i} AS SELECT f FROM s WHERE f = {word}")
    assert db.execute("SHOW FAMILIES").num_rows == 1
    changes = db.push("s", [{"f": False, "ts": "2026-01-01 00:00:00"}])
    assert sorted(changes.queries()) == ["q1", "q4"]
