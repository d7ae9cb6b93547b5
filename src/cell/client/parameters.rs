//! Parameters of calls, as texts.

use pgrx::datum::Interval;
use uuid::Uuid;

/// A parameter of a statement; `None` is NULL.
pub type Parameter = Option<String>;

pub fn number(number: i64) -> Parameter {
    Some(number.to_string())
}

pub fn text(text: &str) -> Parameter {
    Some(text.to_owned())
}

pub fn uuid(uuid: Uuid) -> Parameter {
    Some(uuid.to_string())
}

pub fn uuids(uuids: &[Uuid]) -> Parameter {
    let list: Vec<_> = uuids.iter().map(Uuid::to_string).collect();
    Some(format!("{{{}}}", list.join(",")))
}

pub fn texts(list: &[impl AsRef<str>]) -> Parameter {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let list: Vec<_> = list.iter().map(|text| quoted(text.as_ref())).collect();
    Some(format!("{{{}}}", list.join(",")))
}

/// Returns months, days and seconds. As one text, each server would read it by its own settings.
pub fn interval(interval: Interval) -> [Parameter; 3] {
    let seconds = interval.micros() as f64 / 1e6;
    [Some(interval.months().to_string()), Some(interval.days().to_string()), Some(format!("{seconds:.6}"))]
}
