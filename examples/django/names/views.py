from django.db import connection
from django.http import JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_GET, require_POST

from .forms import EmailForm, RouteForm, UserForm
from .models import Email, Route, User


@require_POST
def new_user(request):
    return saved(UserForm(request.POST))


@require_POST
def user(request, pk):
    return saved(UserForm(request.POST, instance=get_object_or_404(User, pk=pk)))


@require_POST
def email(request, pk):
    return saved(EmailForm(request.POST, instance=get_object_or_404(Email, pk=pk)))


@require_POST
def route(request, pk):
    return saved(RouteForm(request.POST, instance=get_object_or_404(Route, pk=pk)))


def saved(form):
    if form.is_valid() and form.save_unique():
        return JsonResponse({"id": form.instance.pk})
    return JsonResponse(form.errors.get_json_data(), status=422)


@require_GET
def health(request):
    """While the shared database is down the application still reads, and saves all that has no claimed name: so the status is 200."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT service, breaker, last_error FROM claims.service_state")
        services = [dict(zip(("service", "breaker", "last_error"), row)) for row in cursor.fetchall()]
    well = all(service["breaker"] == "closed" for service in services)
    return JsonResponse({"status": "ok" if well else "degraded", "services": services})
