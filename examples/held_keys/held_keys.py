#!/usr/bin/env python3
"""An instance that holds keys and works on them, beside others that do the same.

    held_keys.py work INSTANCE [--ttl 30] [--poll 10] [--most 100]    works until SIGTERM, then hands its keys on
    held_keys.py show                                                 who holds each key, for how long, and how far its work is
    held_keys.py held INSTANCE                                        the keys that an instance holds, with the tokens
    held_keys.py step KEY TOKEN INSTANCE                              one step of work by another process, which was given the token

The PG… environment variables lead to the database. An administrator prepares it:
    SELECT claims.add_expiring('example', '{a,b,c}');
    CREATE TABLE example_steps (key text, position bigint, token bigint, instance text, PRIMARY KEY (key, position));
"""
import argparse
import signal
import threading
import time

import psycopg

KIND = "example"


class Instance:
    """The keys of one instance, by what the database has confirmed: a key that a call does not return is not held."""

    def __init__(self, connection, name, ttl, poll, most):
        self.connection, self.name, self.ttl, self.poll, self.most = connection, name, ttl, poll, most
        self.renew_at = 0.0
        # The first renewal returns what this name holds already. After a lost connection only the database knows that.
        self.tokens = {}

    def _tokens(self, sql, *arguments):
        return dict(self.connection.execute(sql, arguments).fetchall())

    def renew(self):
        """Renews the held keys, drops those that were lost, and takes more: new, handed on, or expired ones."""
        # Counted from before the call: the deadline of the database is later.
        self.renew_at = time.monotonic() + self.poll
        renewed = self._tokens("SELECT key, token FROM claims.renew_expiring(%s, %s, make_interval(secs => %s))", KIND, self.name, self.ttl)
        for key in set(self.tokens) - set(renewed):
            self.lose(key)
        self.tokens = renewed
        if len(self.tokens) < self.most:
            self.tokens |= self._tokens("SELECT key, token FROM claims.acquire_expiring(%s, %s, make_interval(secs => %s), %s)",
                                        KIND, self.name, self.ttl, self.most - len(self.tokens))

    def work(self):
        """One step for each held key. Renews in between, so that many keys may take longer than the ttl; one step may not."""
        for key in list(self.tokens):
            if time.monotonic() >= self.renew_at:
                self.renew()
            if key not in self.tokens:
                continue
            try:
                step(self.connection, key, self.tokens[key], self.name)
            except psycopg.errors.ObjectNotInPrerequisiteState:
                self.lose(key)  # It expired before the step. Nothing of the step was saved.
            except psycopg.errors.UniqueViolation:
                pass  # Another process that was given the token has done this step.

    def lose(self, key):
        print(f"{self.name}: lost {key}", flush=True)
        del self.tokens[key]

    def hand_on(self):
        """Frees all keys at once: others take them at their next poll, not after the ttl."""
        self.connection.execute("SELECT claims.release_expiring(%s, %s)", (KIND, self.name))
        self.tokens = {}


def step(connection, key, token, instance):
    """One step of work. The proof that the key is held commits together with the result, or neither does."""
    with connection.transaction():
        connection.execute("SELECT claims.assert_held(%s, %s, %s)", (KIND, key, token))
        # The work's own state is in its table: whoever takes the key over continues where the last holder has committed.
        (position,) = connection.execute("SELECT coalesce(max(position), 0) FROM example_steps WHERE key = %s", (key,)).fetchone()
        connection.execute("INSERT INTO example_steps VALUES (%s, %s, %s, %s)", (key, position + 1, token, instance))


def run(name, ttl, poll, most, stop):
    while not stop.is_set():
        try:
            # A process that is suspended within a step keeps its key until the step's transaction ends: the server ends it.
            with psycopg.connect(autocommit=True, options=f"-c idle_in_transaction_session_timeout={ttl}s") as connection:
                instance = Instance(connection, name, ttl, poll, most)
                while not stop.is_set():
                    if time.monotonic() >= instance.renew_at:
                        instance.renew()
                    instance.work()
                    stop.wait(min(poll, 0.2))
                instance.hand_on()
        except (psycopg.OperationalError, psycopg.errors.IdleInTransactionSessionTimeout) as error:
            print(f"{name}: {error}; trying again", flush=True)
            stop.wait(min(poll, 1))


def show():
    with psycopg.connect() as connection:
        for row in connection.execute("""
                SELECT key, CASE WHEN expires_at > clock_timestamp() THEN claimant END, token, expires_at - clock_timestamp(),
                       (SELECT count(*) FROM example_steps s WHERE s.key = e.key)
                  FROM claims.expiring_claims e WHERE kind = %s ORDER BY key""", (KIND,)):
            key, holder, token, left, steps = row
            print(f"{key}: {f'{holder} with token {token}, for {left}' if holder else 'free'}, {steps} steps done")


def held(instance):
    with psycopg.connect() as connection:
        for key, token in connection.execute("SELECT key, token FROM claims.held_expiring(%s, %s) ORDER BY key", (KIND, instance)):
            print(key, token)


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    work = commands.add_parser("work")
    work.add_argument("instance")
    work.add_argument("--ttl", type=float, default=30)
    work.add_argument("--poll", type=float, default=10)
    work.add_argument("--most", type=int, default=100)
    commands.add_parser("show")
    commands.add_parser("held").add_argument("instance")
    one = commands.add_parser("step")
    one.add_argument("key")
    one.add_argument("token", type=int)
    one.add_argument("instance")
    arguments = parser.parse_args()
    if arguments.command == "work":
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: stop.set())
        run(arguments.instance, arguments.ttl, arguments.poll, arguments.most, stop)
    elif arguments.command == "show":
        show()
    elif arguments.command == "held":
        held(arguments.instance)
    else:
        with psycopg.connect(autocommit=True) as connection:
            step(connection, arguments.key, arguments.token, arguments.instance)


if __name__ == "__main__":
    main()
