import os
import subprocess
import time
from unittest import mock

from django.db import IntegrityError, OperationalError, connections, transaction
from django.test import SimpleTestCase

from .middleware import BusyNames, sqlstate
from .models import Email, Route, User

UNIQUE = {"username": [{"message": "User with this Username already exists.", "code": "unique"}]}


class ApplicationTest(SimpleTestCase):
    """Tests in one cell. Names of the other cell are made in its database, "elsewhere".

    Names are claimed at COMMIT, so no transaction around each test as TestCase has it; and TRUNCATE of a claimed table is refused, which
    TransactionTestCase would use. Each test has names of its own.
    """

    databases = {"default", "elsewhere"}

    def in_other_cell(self, save):
        """A save elsewhere that wants a name which this cell has just given up."""
        for _ in range(400):
            try:
                return save()
            except OperationalError as error:
                if sqlstate(error) != "55P03":
                    raise
                time.sleep(0.05)
        self.fail("never settled")

    def test_a_free_name_is_saved(self):
        answer = self.client.post("/users", {"username": "ada"})
        self.assertEqual(answer.status_code, 200)
        self.assertEqual(User.objects.get(pk=answer.json()["id"]).username, "ada")

    def test_the_request_is_the_context_of_its_names(self):
        answer = self.client.post("/users", {"username": "context.of.a.request"}, HTTP_X_REQUEST_ID="7f3\x01" + "é" * 300)
        self.assertEqual(answer.status_code, 200)
        with connections["default"].cursor() as cursor:
            cursor.execute("SHOW claims.context")
            (said,) = cursor.fetchone()
        self.assertEqual(said[:23], "POST /users, request 7f")
        self.assertLessEqual(len(said.encode()), 256)

    def test_a_name_of_another_cell_is_an_error_of_the_field(self):
        User.objects.using("elsewhere").create(username="grace")
        # As if the form had not asked before.
        with mock.patch("names.forms.is_available", return_value=True):
            answer = self.client.post("/users", {"username": "grace"})
        self.assertEqual((answer.status_code, answer.json()), (422, UNIQUE))
        self.assertFalse(User.objects.filter(username="grace").exists())
        self.assertEqual(self.client.post("/users", {"username": "grace.hopper"}).status_code, 200)

    def test_a_name_of_this_cell_is_the_same_error(self):
        User.objects.create(username="edsger")
        self.assertEqual(self.client.post("/users", {"username": "edsger"}).json(), UNIQUE)
        # One that was saved between the form's check and its save.
        with mock.patch("names.models.User.validate_unique"), mock.patch("names.forms.is_available", return_value=True):
            answer = self.client.post("/users", {"username": "edsger"})
        self.assertEqual((answer.status_code, answer.json()), (422, UNIQUE))

    def test_the_form_knows_before_the_save(self):
        User.objects.using("elsewhere").create(username="barbara")
        with mock.patch("names.forms.UniqueForm.save_unique", side_effect=AssertionError("saved")):
            self.assertEqual(self.client.post("/users", {"username": "barbara"}).json(), UNIQUE)
        own = User.objects.create(username="liskov")
        self.assertEqual(self.client.post(f"/users/{own.pk}", {"username": "barbara.liskov"}).status_code, 200)

    def test_an_address_is_claimed_once_it_is_confirmed(self):
        other = User.objects.using("elsewhere").create(username="alan")
        Email.objects.using("elsewhere").create(user=other, email="alan@example.org", confirmed=True)
        own = User.objects.create(username="alan.turing").emails.create(email="alan@example.org")
        answer = self.client.post(f"/emails/{own.pk}", {"user": own.user_id, "email": own.email, "confirmed": "on"})
        self.assertEqual((answer.status_code, list(answer.json())), (422, ["email"]))
        own.refresh_from_db()
        self.assertFalse(own.confirmed)

    def test_a_transaction_is_saved_as_a_whole_or_not_at_all(self):
        Route.objects.using("elsewhere").create(path="engines", namespace_id=1)

        def save():
            with transaction.atomic():
                User.objects.create(username="charles")
                Route.objects.create(path="engines", namespace_id=2)

        with self.assertRaises(IntegrityError) as raised:
            self.in_other_cell(save)
        self.assertEqual(raised.exception.__cause__.diag.column_name, "path")
        self.assertEqual(raised.exception.__cause__.diag.constraint_name, "routes_path_claim")
        self.assertFalse(User.objects.filter(username="charles").exists())
        self.assertFalse(Route.objects.filter(namespace_id=2).exists())

    def test_a_name_that_is_given_up_is_free_elsewhere(self):
        user = User.objects.create(username="katherine")
        self.assertEqual(self.client.post(f"/users/{user.pk}", {"username": "katherine.johnson"}).status_code, 200)
        self.in_other_cell(lambda: User.objects.using("elsewhere").create(username="katherine"))
        user.delete()
        self.in_other_cell(lambda: User.objects.using("elsewhere").create(username="katherine.johnson"))

    def test_bulk_statements_are_claimed_too(self):
        Route.objects.bulk_create([Route(path="a", namespace_id=3), Route(path="b", namespace_id=3)])
        elsewhere = Route.objects.using("elsewhere")
        with self.assertRaises(IntegrityError):
            self.in_other_cell(lambda: elsewhere.bulk_create([Route(path="b", namespace_id=4), Route(path="c", namespace_id=4)]))
        self.assertEqual(elsewhere.filter(namespace_id=4).count(), 0)

    def test_a_request_is_repeated_that_meets_a_name_being_saved_elsewhere(self):
        route = Route.objects.create(path="kernel", namespace_id=5)
        other = transaction.atomic(using="elsewhere")
        other.__enter__()
        Route.objects.using("elsewhere").create(path="kernel/stable", namespace_id=6)
        with connections["elsewhere"].cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # the name is leased now, and not at COMMIT
        wanted = {"path": "kernel/stable", "namespace_id": 5}
        with mock.patch.object(BusyNames, "attempts", 2):
            answer = self.client.post(f"/routes/{route.pk}", wanted)
        self.assertEqual((answer.status_code, answer["Retry-After"]), (503, "1"))

        pauses = []

        def other_ends(pause):
            if not pauses:
                transaction.set_rollback(True, using="elsewhere")
                other.__exit__(None, None, None)
            pauses.append(pause)
            time.sleep(pause)

        with mock.patch.object(BusyNames, "sleep", other_ends):
            self.assertEqual(self.client.post(f"/routes/{route.pk}", wanted).status_code, 200)
        self.assertGreaterEqual(len(pauses), 1)
        route.refresh_from_db()
        self.assertEqual(route.path, "kernel/stable")

    def test_the_health_check_shows_that_the_service_is_down(self):
        self.assertEqual(self.client.post("/users", {"username": "margaret"}).status_code, 200)
        self.assertEqual(self.client.get("/health").json()["status"], "ok")
        subprocess.run(os.environ["STOP_SERVICE"], check=True)
        try:
            for number in range(5):  # claims.breaker_failures
                self.assertEqual(self.client.post("/users", {"username": f"margaret.{number}"}).status_code, 503)
            answer = self.client.get("/health")
            self.assertEqual((answer.status_code, answer.json()["status"]), (200, "degraded"))
            self.assertEqual(answer.json()["services"][0]["breaker"], "open")
            self.assertTrue(User.objects.filter(username="margaret").exists())
        finally:
            subprocess.run(os.environ["START_SERVICE"], check=True)
        end = time.monotonic() + 60
        while self.client.post("/users", {"username": "margaret.hamilton"}).status_code != 200 and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(self.client.get("/health").json()["status"], "ok")
        self.assertTrue(User.objects.filter(username="margaret.hamilton").exists())
