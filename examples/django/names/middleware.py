import time

from django.db import OperationalError, connection
from django.http import JsonResponse

LOCK_NOT_AVAILABLE = "55P03"
# The service cannot be reached, or did not answer in time.
UNAVAILABLE = {"08001", "08006", "57014"}


class BusyNames:
    """Repeats a request that met a name that another session is saving or giving up: that is settled within milliseconds.

    The last one of MIDDLEWARE, so that it repeats only the view.
    """

    attempts = 20
    sleep = time.sleep

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        for attempt in range(self.attempts):
            request.met_busy_name = False
            response = self.get_response(request)
            if not request.met_busy_name:
                break
            type(self).sleep(min(0.01 * 2**attempt, 1))
        return response

    def process_exception(self, request, error):
        state = isinstance(error, OperationalError) and sqlstate(error)
        if state not in UNAVAILABLE | {LOCK_NOT_AVAILABLE}:
            return None
        request.met_busy_name = state == LOCK_NOT_AVAILABLE
        return JsonResponse({"error": "Names cannot be saved at the moment."}, status=503, headers={"Retry-After": "1"})


def sqlstate(error):
    """The SQLSTATE of an error of the database, which psycopg2 and psycopg 3 have in the same place."""
    return getattr(getattr(error.__cause__, "diag", None), "sqlstate", None)


class ActingContext:
    """Says in claims.context who acts and why: it goes with every name that the request saves to the service's audit log.

    Before BusyNames in MIDDLEWARE. A database connection that outlives the request keeps it until the next request says something else.
    """

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('claims.context', %s, false)", [context_of(request)])
        return self.get_response(request)


def context_of(request):
    """At most 256 bytes and no control characters: anything else would be an error."""
    said = f"{request.method} {request.path}, request {request.headers.get('X-Request-Id', '-')}"
    return "".join(filter(str.isprintable, said)).encode()[:256].decode(errors="ignore")
