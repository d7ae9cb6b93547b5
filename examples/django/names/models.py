from django.db import models


class User(models.Model):
    username = models.CharField(max_length=255, unique=True)

    class Meta:
        db_table = "users"


class Email(models.Model):
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="emails")
    email = models.EmailField(unique=True)
    confirmed = models.BooleanField(default=False)

    class Meta:
        db_table = "emails"


class Route(models.Model):
    namespace_id = models.BigIntegerField()
    path = models.CharField(max_length=255, unique=True)

    class Meta:
        db_table = "routes"


class Ticket(models.Model):
    """A table with a partition for each region. Codes are unique in all of them, which only the database knows."""

    region = models.CharField(max_length=20)
    code = models.CharField(max_length=40)

    class Meta:
        db_table = "tickets"
