"""Tests of the application, in one cell. Names of the other cell are made in its database, `elsewhere`. Names are claimed at COMMIT, so no
transaction around each test; each has names of its own."""

import os
import subprocess
import time

import pytest
from sqlalchemy import create_engine, func, insert, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import sessionmaker

from models import Email, Route, User
from saving import Invalid, Unavailable, health, in_transaction, is_available


@pytest.fixture(scope="module")
def here():
    return sessionmaker(create_engine("postgresql+psycopg2://", future=True), future=True)


@pytest.fixture(scope="module")
def elsewhere():
    options = {"host": os.environ["OTHER_PGHOST"], "port": os.environ["OTHER_PGPORT"]}
    return sessionmaker(create_engine("postgresql+psycopg2://", connect_args=options, future=True), future=True)


def save(sessions, *instances):
    """Returns the ids."""

    def work(session):
        session.add_all(instances)
        session.flush()
        return [instance.id for instance in instances]

    return in_transaction(sessions, work)


def count(sessions, *conditions):
    with sessions() as session:
        return session.scalar(select(func.count()).where(*conditions))


def test_a_free_name_is_saved(here):
    save(here, User(username="ada", emails=[Email(email="ada@example.org")]))
    assert count(here, User.username == "ada") == 1


def test_a_name_of_another_cell_is_an_error_of_the_field(here, elsewhere):
    save(elsewhere, User(username="grace"))
    with pytest.raises(Invalid) as raised:
        save(here, User(username="grace"))
    assert raised.value.errors == {"username": "is already taken"}
    diagnostics = raised.value.__cause__.orig.diag
    assert (diagnostics.table_name, diagnostics.column_name, diagnostics.constraint_name) == ("users", "username", "users_username_claim")
    assert count(here, User.username == "grace") == 0
    save(here, User(username="grace.hopper"))


def test_a_name_of_this_cell_is_the_same_error(here):
    save(here, User(username="edsger"))
    with pytest.raises(Invalid) as raised:
        save(here, User(username="edsger"))
    assert raised.value.errors == {"username": "is already taken"}


def test_the_form_knows_before_the_save(here, elsewhere):
    save(elsewhere, User(username="barbara"))
    (own,) = save(here, User(username="liskov"))
    with here() as session:
        assert not is_available(session, User(username="barbara"), "username")
        assert is_available(session, User(username="barbara.liskov"), "username")
        assert not is_available(session, User(username="liskov"), "username")
        assert is_available(session, session.get(User, own), "username")


def test_an_address_is_claimed_once_it_is_confirmed(here, elsewhere):
    save(elsewhere, User(username="alan", emails=[Email(email="alan@example.org", confirmed=True)]))
    save(here, User(username="alan.turing", emails=[Email(email="alan@example.org")]))

    def confirm(session):
        session.scalars(select(Email).filter_by(email="alan@example.org")).one().confirmed = True

    with pytest.raises(Invalid) as raised:
        in_transaction(here, confirm)
    assert raised.value.errors == {"email": "is already taken"}
    assert count(here, Email.email == "alan@example.org", Email.confirmed) == 0


def test_a_transaction_is_saved_as_a_whole_or_not_at_all(here, elsewhere):
    save(elsewhere, Route(path="engines", namespace_id=1))
    with pytest.raises(Invalid) as raised:
        save(here, User(username="charles"), Route(path="engines", namespace_id=2))
    assert raised.value.errors == {"path": "is already taken"}
    assert count(here, User.username == "charles") == 0
    assert count(here, Route.namespace_id == 2) == 0


def test_a_name_that_is_given_up_is_free_elsewhere(here, elsewhere):
    (own,) = save(here, User(username="katherine"))
    in_transaction(here, lambda session: setattr(session.get(User, own), "username", "katherine.johnson"))
    save(elsewhere, User(username="katherine"))
    in_transaction(here, lambda session: session.delete(session.get(User, own)))
    save(elsewhere, User(username="katherine.johnson"))


def test_bulk_statements_are_claimed_too(here, elsewhere):
    def add(*rows):
        return lambda session: session.execute(insert(Route), [{"path": path, "namespace_id": namespace_id} for path, namespace_id in rows])

    in_transaction(here, add(("a", 3), ("b", 3)))
    with pytest.raises(Invalid):
        in_transaction(elsewhere, add(("b", 4), ("c", 4)))
    assert count(elsewhere, Route.namespace_id == 4) == 0


def test_a_transaction_is_repeated_that_meets_a_name_being_saved_elsewhere(here, elsewhere):
    with elsewhere() as other:
        other.add(Route(path="kernel", namespace_id=6))
        other.flush()
        other.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))  # the name is leased now, and not at COMMIT

        def work(session):
            session.add(Route(path="kernel", namespace_id=5))

        with pytest.raises(Unavailable):
            in_transaction(here, work, attempts=2)
        pauses = []

        def pause(seconds):
            if not pauses:
                other.rollback()
            pauses.append(seconds)
            time.sleep(seconds)

        in_transaction(here, work, sleep=pause)
    assert len(pauses) >= 1
    assert count(here, Route.path == "kernel") == 1


def test_the_health_check_shows_that_the_service_is_down(here):
    save(here, User(username="margaret"))
    assert health(here)["status"] == "ok"
    subprocess.run(os.environ["STOP_SERVICE"], check=True)
    try:
        for number in range(5):  # claims.breaker_failures
            with pytest.raises(Unavailable) as raised:
                save(here, User(username=f"margaret.{number}"))
            assert isinstance(raised.value.__cause__, OperationalError)
        state = health(here)
        assert (state["status"], state["services"][0]["breaker"]) == ("degraded", "open")
        assert count(here, User.username == "margaret") == 1
    finally:
        subprocess.run(os.environ["START_SERVICE"], check=True)
    end = time.monotonic() + 60
    while True:
        try:
            save(here, User(username="margaret.hamilton"))
            break
        except Unavailable:
            assert time.monotonic() < end
            time.sleep(0.1)
    assert health(here)["status"] == "ok"
