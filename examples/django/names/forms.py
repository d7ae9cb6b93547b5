import re

from django import forms
from django.db import IntegrityError, connection, transaction

from .models import Email, Route, User


class UniqueForm(forms.ModelForm):
    """A form that shows a violation of uniqueness that only the database has seen as an error of the field."""

    def clean(self):
        cleaned = super().clean()
        for field in self.Meta.available:
            if field in self.changed_data and field in cleaned and not is_available(self.instance, field, cleaned[field]):
                self.add_error(field, self.unique_error(field))
        return cleaned

    def save_unique(self):
        """Saves and commits; returns whether the names were free."""
        try:
            with transaction.atomic():
                self.save()
            return True
        except IntegrityError as error:
            field = violated_field(error)
            if field not in self.fields:
                raise
            self.add_error(field, self.unique_error(field))
            return False

    def unique_error(self, field):
        return self.instance.unique_error_message(type(self.instance), (field,))


def violated_field(error):
    """Returns the column of a unique violation. PostgreSQL names it in DETAIL; names that are taken in another cell have the same form."""
    key = re.match(r'Key \("?(.+?)"?\)=', getattr(error.__cause__.diag, "message_detail", None) or "")
    return key and key[1]


def is_available(instance, field, value):
    """Asks whether another cell has the name. The save decides: where the service does not answer in time, nothing is said here."""
    with connection.cursor() as cursor:
        key = None if instance.pk is None else str(instance.pk)
        cursor.execute("SELECT claims.is_available(%s, %s, %s, %s)", [instance._meta.db_table, field, value, key])
        return cursor.fetchone()[0] is not False


class UserForm(UniqueForm):
    class Meta:
        model = User
        fields = ["username"]
        available = ["username"]


class EmailForm(UniqueForm):
    class Meta:
        model = Email
        fields = ["user", "email", "confirmed"]
        available = []


class RouteForm(UniqueForm):
    class Meta:
        model = Route
        fields = ["namespace_id", "path"]
        available = []
