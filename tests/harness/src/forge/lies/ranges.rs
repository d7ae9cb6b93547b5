//! Wrong ranges of ids. The answer is one row with the first and the last id.

use super::super::home::RIVALS_IDS;
use super::super::lie::{Deed, Fault, Honest, Lie, Place, Step};
use super::super::wire::Value;

const fn lie(name: &'static str, tell: fn(&Honest) -> Vec<Step>) -> Lie {
    Lie { name, place: Place::Answer, deed: Deed::Done, fault: Fault::Ranges, is_long: false, computes: false, tell }
}

pub static LIES: &[Lie] = &[
    lie("a range that the cell has", |honest| {
        // The range that was asked for follows this one.
        told(honest, |first, _| (number(first - 10), number(first - 1)))
    }),
    lie("a range that overlaps the last one", |honest| {
        told(honest, |first, last| (number(first - 1), number(last - 1)))
    }),
    lie("a range around all that the cell has", |honest| told(honest, |first, _| (number(1), number(first + 1)))),
    lie("a range of another cell", |honest| told(honest, |_, _| (number(RIVALS_IDS.0), number(RIVALS_IDS.1)))),
    lie("a range that overlaps another cell's", |honest| {
        told(honest, |_, _| (number(RIVALS_IDS.1 - 1), number(RIVALS_IDS.1 + 1)))
    }),
    lie("a range that nobody has leased", |honest| told(honest, |first, last| (number(first + 1), number(last + 1)))),
    lie("a range that is too long", |honest| told(honest, |first, last| (number(first), number(last + 1)))),
    lie("a negative range", |honest| told(honest, |first, last| (number(-last), number(-first)))),
    lie("the least ids", |honest| told(honest, |_, _| (number(i64::MIN), number(i64::MIN + 1)))),
    lie("the largest ids", |honest| told(honest, |_, _| (number(i64::MAX - 1), number(i64::MAX)))),
    lie("all ids", |honest| told(honest, |_, _| (number(i64::MIN), number(i64::MAX)))),
    lie("a reversed range", |honest| told(honest, |first, last| (number(last), number(first)))),
    lie("an empty range", |honest| told(honest, |first, _| (number(first), number(first - 1)))),
    lie("a range without a bound", |honest| told(honest, |first, _| (number(first), None))),
    lie("a range without bounds", |honest| told(honest, |_, _| (None, None))),
    lie("ids beyond a bigint", |honest| {
        told(honest, |first, _| (number(first), Some(b"9223372036854775808".to_vec())))
    }),
    lie("a range as a text", |honest| {
        told(honest, |first, last| (Some(format!("[{first},{last}]").into_bytes()), number(last)))
    }),
    lie("words for a range", |honest| told(honest, |_, _| (Some(b"first".to_vec()), Some(b"last".to_vec())))),
    lie("numbers with more behind them", |honest| {
        told(honest, |first, last| (Some(format!("{first} 1").into_bytes()), Some(format!("{last}.0").into_bytes())))
    }),
];

fn number(id: i64) -> Value {
    Some(id.to_string().into_bytes())
}

/// Returns the answer with another range.
fn told(honest: &Honest, change: fn(i64, i64) -> (Value, Value)) -> Vec<Step> {
    let id = |column: usize| {
        let text = honest.rows.first()?.get(column)?.as_deref()?;
        std::str::from_utf8(text).ok()?.parse::<i64>().ok()
    };
    let Some((first, last)) = id(0).zip(id(1)) else { return vec![Step::Send(honest.all())] };
    let (first, last) = change(first, last);
    honest.around([honest.description(), super::super::wire::row(&[first, last])].concat())
}
