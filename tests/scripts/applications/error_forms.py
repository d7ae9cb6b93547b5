"""How frameworks read a unique violation, and that they read one of claims as they read PostgreSQL's own.

Each reader does what its framework does with the error that its driver hands over, with the framework's own expression."""

import os
import re
import time
import unittest

import psycopg2


class Violation:
    """The fields of an error, as a driver has them."""

    def __init__(self, error):
        self.code = error.pgcode
        self.message = error.diag.message_primary
        self.detail = error.diag.message_detail
        self.schema = error.diag.schema_name
        self.table = error.diag.table_name
        self.column = error.diag.column_name
        self.constraint = error.diag.constraint_name

    def with_constraint(self, name):
        """Returns the violation as if the constraint had another name."""
        other = Violation.__new__(Violation)
        other.__dict__ = dict(self.__dict__, constraint=name, message=self.message.replace(f'"{self.constraint}"', f'"{name}"'))
        return other


# --- readers --------------------------------------------------------------------------------------------------------


def sequelize(violation):
    """Sequelize: the fields and values of a UniqueConstraintError."""
    match = re.search(r"Key \((.*?)\)=\((.*?)\)", violation.detail.replace('"', ""))
    return dict(zip(match[1].split(", "), match[2].split(", "))) if match else None


def prisma(violation):
    """Prisma: `target` of P2002."""
    parts = violation.detail.split(")=(")[0].split(" (", 1)
    return parts[1].replace('"', "").split(", ") if len(parts) == 2 else None


def objection(violation):
    """Objection and Knex with db-errors: table, columns and constraint of a UniqueViolationError."""
    match = re.search(r"Key \((.+)\)=\(.+\) already exists", violation.detail)
    columns = [re.sub(r'^"(.*)"$', r"\1", column.strip()) for column in match[1].split(",")] if match else None
    return violation.table, columns, violation.constraint


def ecto(violation):
    """Ecto: the constraint that unique_constraint/3 of a changeset must name; by default TABLE_FIELD_index."""
    return violation.constraint


def ecto_of_message(violation):
    """Ecto's other clause, for servers that name no constraint."""
    parts = violation.message.split(" unique constraint ")
    return parts[1][1:-1] if len(parts) == 2 else None


def hibernate(violation):
    """Hibernate: ConstraintViolationException.getConstraintName(), from the message of the driver, which has the DETAIL in it."""
    message = f"ERROR: {violation.message}\n  Detail: {violation.detail}"
    template = 'violates unique constraint "'
    start = message.find(template)
    return message[start + len(template) : message.index('"', start + len(template))] if start >= 0 else None


def fields(violation):
    """sqlx, TypeORM, node-postgres, Npgsql with Entity Framework, pgx: the fields of the protocol. PostgreSQL's own unique violations have no column."""
    return violation.code, violation.schema, violation.table, violation.constraint


def code(violation):
    """ActiveRecord, Django, SQLAlchemy, GORM, Laravel, Doctrine: the class of the error."""
    return violation.code


READERS = [sequelize, prisma, objection, ecto, ecto_of_message, hibernate, fields, code]

# --- tests ----------------------------------------------------------------------------------------------------------


def refused(connection, statement, *arguments):
    """Returns the error with which a transaction ends, at its COMMIT or before. A name that another session is saving or giving up is asked for again:
    a save returns before its lease is settled."""
    for _ in range(400):
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(statement, arguments)
            raise AssertionError("saved")
        except psycopg2.errors.LockNotAvailable:
            time.sleep(0.05)
        except psycopg2.Error as error:
            return Violation(error)
    raise AssertionError("never settled")


class ErrorForms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.here = psycopg2.connect("")
        cls.elsewhere = psycopg2.connect(host=os.environ["OTHER_PGHOST"], port=os.environ["OTHER_PGPORT"])

    def violations(self, statement, *arguments):
        """Returns PostgreSQL's own error, of a value that the table has, and the one of a value that another cell has."""
        with self.elsewhere, self.elsewhere.cursor() as cursor:
            cursor.execute(statement, arguments)
        return refused(self.elsewhere, statement, *arguments), refused(self.here, statement, *arguments)

    def assert_same(self, own, other, constraint):
        own = own.with_constraint(constraint)
        for reader in READERS:
            with self.subTest(reader.__name__):
                self.assertIsNotNone(reader(own))
                self.assertEqual(reader(other), reader(own))
        self.assertEqual(other.message, own.message)
        self.assertTrue(other.detail.startswith(own.detail + "\n"), other.detail)

    def test_what_each_reads(self):
        _, other = self.violations("INSERT INTO users (username) VALUES (%s)", "ada")
        self.assertEqual(sequelize(other), {"username": "ada"})
        self.assertEqual(prisma(other), ["username"])
        self.assertEqual(objection(other), ("users", ["username"], "users_username_claim"))
        self.assertEqual(ecto(other), "users_username_claim")
        self.assertEqual(ecto_of_message(other), "users_username_claim")
        self.assertEqual(hibernate(other), "users_username_claim")
        self.assertEqual(fields(other), ("23505", "public", "users", "users_username_claim"))
        self.assertEqual(other.column, "username")

    def test_readers_see_the_difference(self):
        """The readers can fail: an error in another form is read otherwise, or not at all."""
        _, other = self.violations("INSERT INTO users (username) VALUES (%s)", "grace")
        other.message, other.detail, other.constraint = "could not claim one bucket of the batch", '[{"op":"create"}]', None
        self.assertEqual([reader(other) for reader in READERS if reader not in (objection, fields, code)], [None] * 5)
        self.assertEqual(objection(other), ("users", None, None))

    def test_values(self):
        for value in ["o'brien", "a, b", 'a"b', "a)=(b", "a (b", "(", "back\\slash", "zoë", "{}", "Key (id)=(1) already exists.", "%s", "x" * 1000]:
            with self.subTest(value):
                self.assert_same(*self.violations("INSERT INTO users (username) VALUES (%s)", value), "users_username_claim")

    def test_names_that_are_quoted(self):
        own, other = self.violations('INSERT INTO "Accounts" ("User Name") VALUES (%s)', "alan")
        self.assert_same(own, other, "Accounts_User Name_claim")
        self.assertEqual((sequelize(other), prisma(other)), ({"User Name": "alan"}, ["User Name"]))
        self.assertEqual(objection(other)[:2], ("Accounts", ["User Name"]))

    def test_the_constraint_has_the_name_that_the_application_knows(self):
        own, other = self.violations("INSERT INTO articles (slug) VALUES (%s)", "engines")
        self.assert_same(own, other, "articles_slug_index")
        self.assertEqual((ecto(other), hibernate(other)), ("articles_slug_index", "articles_slug_index"))

    def test_within_the_transaction(self):
        """After SET CONSTRAINTS ALL IMMEDIATE the statement fails, as it does with PostgreSQL's own constraint."""
        self.violations("INSERT INTO users (username) VALUES (%s)", "barbara")
        other = refused(self.here, "SET CONSTRAINTS ALL IMMEDIATE; INSERT INTO users (username) VALUES (%s)", "barbara")
        self.assertEqual(fields(other), ("23505", "public", "users", "users_username_claim"))
        self.assertEqual((sequelize(other), hibernate(other)), ({"username": "barbara"}, "users_username_claim"))

    def test_a_temporary_conflict_names_the_column_too(self):
        with self.elsewhere.cursor() as cursor:
            cursor.execute("INSERT INTO users (username) VALUES ('edsger'); SET CONSTRAINTS ALL IMMEDIATE")
        with self.assertRaises(psycopg2.errors.LockNotAvailable) as raised, self.here, self.here.cursor() as cursor:
            cursor.execute("INSERT INTO users (username) VALUES ('edsger')")
        self.elsewhere.rollback()
        violation = Violation(raised.exception)
        self.assertEqual(fields(violation), ("55P03", "public", "users", "users_username_claim"))
        self.assertEqual(violation.column, "username")

    def test_the_conflicts_stay_readable_for_programs(self):
        _, other = self.violations("INSERT INTO routes (namespace_id, path) VALUES (1, %s)", "kernel")
        with self.here, self.here.cursor() as cursor:
            cursor.execute("SELECT (%s::jsonb -> 0) - 'lease_age_seconds'", [other.detail.splitlines()[-1]])
            conflict = cursor.fetchone()[0]
            cursor.execute("SELECT table_name::text, attribute, bucket_type, bucket_value, reason, retryable, holder_cell_id FROM claims.last_conflicts()")
            last = cursor.fetchall()
        self.assertEqual((conflict["bucket"], conflict["reason"], conflict["holder_cell_id"]), ({"type": "ROUTES", "value": "kernel"}, "taken", 1))
        self.assertEqual(last, [("routes", "path", "ROUTES", "kernel", "taken", False, 1)])


if __name__ == "__main__":
    unittest.main()
