from django.db import IntegrityError, connections, transaction
from django.test import SimpleTestCase

from .forms import violated_field
from .models import Ticket

tickets = Ticket.objects.using("alone")


class PartitionsTest(SimpleTestCase):
    """Tests of a partitioned model in a single database. Codes are claimed at COMMIT, so no transaction around each test."""

    databases = {"alone"}

    def setUp(self):
        tickets.all().delete()

    def refused(self, save):
        with self.assertRaises(IntegrityError) as raised:
            save()
        self.assertEqual(violated_field(raised.exception), "code")
        diag = raised.exception.__cause__.diag
        self.assertEqual((diag.table_name, diag.column_name, diag.constraint_name), ("tickets", "code", "tickets_code"))

    def test_a_code_of_another_partition_is_refused(self):
        tickets.create(region="north", code="A-1")
        self.refused(lambda: tickets.create(region="south", code="A-1"))
        self.refused(lambda: tickets.bulk_create([Ticket(region="south", code="A-2"), Ticket(region="south", code="A-1")]))
        self.assertEqual(list(tickets.values_list("region", "code")), [("north", "A-1")])
        tickets.create(region="south", code="A-2")

    def test_a_row_moves_to_another_partition_and_keeps_its_code(self):
        ticket = tickets.create(region="north", code="B-1")
        ticket.region = "south"
        ticket.save()
        self.refused(lambda: tickets.create(region="north", code="B-1"))
        ticket.delete()
        tickets.create(region="north", code="B-1")

    def test_two_rows_swap_their_codes_in_a_transaction(self):
        one, two = tickets.create(region="north", code="C-1"), tickets.create(region="south", code="C-2")
        with transaction.atomic(using="alone"):
            tickets.filter(pk=one.pk).update(code="C-2")
            tickets.filter(pk=two.pk).update(code="C-1")
        self.assertEqual(dict(tickets.values_list("region", "code")), {"north": "C-2", "south": "C-1"})

    def test_the_codes_of_a_partition_that_is_dropped_are_free(self):
        with connections["alone"].cursor() as cursor:
            cursor.execute("CREATE TABLE tickets_west PARTITION OF tickets FOR VALUES IN ('west')")
            tickets.create(region="west", code="D-1")
            self.refused(lambda: tickets.create(region="north", code="D-1"))
            cursor.execute("DROP TABLE tickets_west")
        tickets.create(region="north", code="D-1")
