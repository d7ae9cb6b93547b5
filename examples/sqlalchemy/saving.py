"""Saves with the errors of an application: a field that is not unique, names that are busy."""

import re
import time

from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError, OperationalError

UNIQUE_VIOLATION = "23505"
LOCK_NOT_AVAILABLE = "55P03"
# The service cannot be reached, or did not answer in time.
UNAVAILABLE = {"08001", "08006", "57014"}


class Invalid(Exception):
    """What a form shows: messages by field."""

    def __init__(self, errors):
        super().__init__(errors)
        self.errors = errors


class Unavailable(Exception):
    """Names cannot be saved at the moment: 503 with Retry-After in HTTP."""


def in_transaction(sessions, work, attempts=20, sleep=time.sleep):
    """Returns work(session), committed. A transaction that meets a name which another session is saving or giving up is repeated: that is
    settled within milliseconds."""
    for attempt in range(attempts):
        try:
            with sessions.begin() as session:
                return work(session)
        except IntegrityError as error:
            field = error.orig.pgcode == UNIQUE_VIOLATION and violated_field(error)
            if not field:
                raise
            raise Invalid({field: "is already taken"}) from error
        except OperationalError as error:
            if error.orig.pgcode in UNAVAILABLE:
                raise Unavailable() from error
            if error.orig.pgcode != LOCK_NOT_AVAILABLE:
                raise
        sleep(min(0.01 * 2**attempt, 1))
    raise Unavailable()


def violated_field(error):
    """Returns the column of a unique violation. PostgreSQL names it in DETAIL; names that are taken in another cell have the same form."""
    key = re.match(r'Key \("?(.+?)"?\)=', error.orig.diag.message_detail or "")
    return key and key[1]


def is_available(session, instance, field):
    """Asks whether another cell has the name, for a form. The save decides: where the service does not answer in time, it is True."""
    key = inspect(instance).identity
    arguments = {"table": instance.__tablename__, "field": field, "value": getattr(instance, field), "key": key and str(key[0])}
    return session.scalar(text("SELECT claims.is_available(:table, :field, :value, :key)"), arguments) is not False


def health(sessions):
    """While the shared database is down the application still reads, and saves all that has no claimed name: it is degraded, not dead."""
    with sessions() as session:
        services = [dict(row) for row in session.execute(text("SELECT service, breaker, last_error FROM claims.service_state")).mappings()]
    well = all(service["breaker"] == "closed" for service in services)
    return {"status": "ok" if well else "degraded", "services": services}
