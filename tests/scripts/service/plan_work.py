"""Adds up what the plans have done that auto_explain wrote to stdin as JSON: rows that their steps handed on, or threw away.

Says `linear` where that is at most the limit given; otherwise the sum, and the steps that did most."""
import json
import sys

THROWN_AWAY = ("Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck")


def steps(plan):
    yield plan
    for inner in plan.get("Plans", []):
        yield from steps(inner)


def rows(step):
    return step["Actual Loops"] * (step["Actual Rows"] + sum(step.get(name, 0) for name in THROWN_AWAY))


text, decoder, done, at = sys.stdin.read(), json.JSONDecoder(), [], 0
while (at := text.find("plan:\n", at)) >= 0:
    plan, at = decoder.raw_decode(text, at + len("plan:\n"))
    done += [(rows(step), f'{step["Node Type"]} {step.get("Alias", step.get("CTE Name", ""))}') for step in steps(plan["Plan"])]
total = sum(count for count, _ in done)
if not done:
    print("no plan")
elif total <= int(sys.argv[1]):
    print("linear")
else:
    print(f"{total:.0f} rows", *(f"{count:.0f} {name}" for count, name in sorted(done, reverse=True)[:5]), sep="; ")
