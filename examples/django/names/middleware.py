import time

from django.db import OperationalError
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
        state = isinstance(error, OperationalError) and getattr(error.__cause__, "pgcode", None)
        if state not in UNAVAILABLE | {LOCK_NOT_AVAILABLE}:
            return None
        request.met_busy_name = state == LOCK_NOT_AVAILABLE
        return JsonResponse({"error": "Names cannot be saved at the moment."}, status=503, headers={"Retry-After": "1"})
