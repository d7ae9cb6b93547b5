"""Helpers of the campaigns: psql, and sessions of it that can be killed. All use the database of PGDATABASE."""
import os
import subprocess


def fresh_database(name, setup):
    """Makes a database, which is the one of PGDATABASE from then on."""
    os.environ["PGDATABASE"] = "postgres"
    psql(f"DROP DATABASE IF EXISTS {name}")
    psql(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
    os.environ["PGDATABASE"] = name
    psql(setup)


def psql(sql):
    """The answer of statements that must succeed."""
    done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", sql], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout.strip()


class Session:
    """A psql that answers one statement after another, and can be killed. `options` are psql's."""

    def __init__(self, *options):
        self.process = subprocess.Popen(["psql", "-XqAt", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)

    def ask(self, sql):
        """The lines of the answer; None where the connection is gone."""
        lines = []
        try:
            self.send(sql)
            self.write("\\echo <end>\n")
            for line in self.process.stdout:
                if line.strip() == "<end>":
                    return lines
                lines.append(line.rstrip("\n"))
        except OSError:
            pass
        return None

    def send(self, sql):
        """Without waiting for an answer."""
        self.write(sql + ";\n")

    def write(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def close(self):
        self.process.kill()
        self.process.wait()
