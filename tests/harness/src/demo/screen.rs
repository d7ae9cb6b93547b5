//! The output: headings, short paragraphs, small tables, one progress line.

use std::io::{IsTerminal, Write, stdout};
use std::time::{Duration, Instant};

const WIDTH: usize = 92;

/// How often progress is printed if it cannot be updated in place.
const OCCASIONALLY: Duration = Duration::from_secs(2);

pub struct Screen {
    tty: bool,
    color: bool,
    last_progress: Option<Instant>,
    failures: Vec<String>,
}

impl Screen {
    pub fn new() -> Self {
        let tty = stdout().is_terminal();
        let color = tty && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Self { tty, color, last_progress: None, failures: Vec::new() }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    pub fn heading(&self, number: usize, title: &str) {
        let line = format!("{number}. {title}");
        println!("\n{}\n{}\n", self.paint("1", &line), "-".repeat(line.len()));
    }

    /// Prints a paragraph, broken into lines.
    pub fn say(&self, text: &str) {
        for line in wrap(text, WIDTH - 2) {
            println!("  {line}");
        }
    }

    pub fn blank(&self) {
        println!();
    }

    /// Prints a table. Columns with only digits are aligned to the right.
    pub fn table(&self, heads: &[&str], rows: &[Vec<String>]) {
        let width =
            |c: usize| rows.iter().map(|r| r[c].chars().count()).chain([heads[c].chars().count()]).max().unwrap_or(0);
        let figures = |c: usize| rows.iter().all(|r| r[c].chars().all(|x| x.is_ascii_digit() || ",.".contains(x)));
        let line = |cells: Vec<&str>| {
            let pad = |(c, cell): (usize, &str)| {
                let fill = " ".repeat(width(c) - cell.chars().count());
                if figures(c) { fill + cell } else { cell.to_string() + &fill }
            };
            cells.into_iter().enumerate().map(pad).collect::<Vec<_>>().join("   ").trim_end().to_string()
        };
        println!();
        println!("    {}", self.paint("2", &line(heads.to_vec())));
        for row in rows {
            println!("    {}", line(row.iter().map(String::as_str).collect()));
        }
        println!();
    }

    /// Prints a labeled text below an example, such as DETAIL or HINT, broken into lines.
    pub fn label(&self, label: &str, text: &str) {
        for (n, line) in wrap(text, WIDTH - 14).iter().enumerate() {
            let head = if n == 0 { label } else { "" };
            println!("      {}  {line}", self.paint("2", &format!("{head:<6}")));
        }
    }

    /// Prints the title of an example.
    pub fn example(&self, title: &str) {
        println!("    {}", self.paint("1", title));
    }

    /// Prints the progress line. On a terminal it is updated in place, elsewhere it is printed from time to time.
    pub fn progress(&mut self, line: &str) {
        if self.tty {
            print!("\r\x1b[K  {line}");
            let _ = stdout().flush();
        } else if self.last_progress.is_none_or(|t| t.elapsed() >= OCCASIONALLY) {
            println!("  {line}");
        } else {
            return;
        }
        self.last_progress = Some(Instant::now());
    }

    /// Ends the progress line.
    pub fn progress_done(&mut self) {
        if self.tty {
            print!("\r\x1b[K");
            let _ = stdout().flush();
        }
        self.last_progress = None;
    }

    /// Checks an expectation, and prints it.
    pub fn expect(&mut self, so: bool, what: &str) {
        if so {
            println!("  {}  {what}", self.paint("32", "ok"));
        } else {
            println!("  {}  {what}", self.paint("31", "NOT SO:"));
            self.failures.push(what.to_string());
        }
    }

    /// Prints the last line. Returns true if all expectations were met.
    pub fn verdict(&self) -> bool {
        println!();
        match self.failures.as_slice() {
            [] => println!("{}", self.paint("1", "Everything was as it should be.")),
            failures => println!("{} of the statements above did not hold.", failures.len()),
        }
        self.failures.is_empty()
    }
}

/// Breaks a text into lines at spaces. A word that is longer than a line is cut, after a comma if it has one.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if !line.is_empty() && line.chars().count() + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
        }
        while word.len() > width {
            let comma = word[..width].iter().rposition(|c| *c == ',');
            let rest = word.split_off(comma.map_or(width, |at| at + 1));
            lines.push(word.into_iter().collect());
            word = rest;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word);
    }
    lines.push(line);
    lines
}

/// Formats a whole number with commas: 63,682.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{thousands, wrap};

    #[test]
    fn commas_stand_every_three_digits() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (63682, "63,682"), (1234567, "1,234,567")] {
            assert_eq!(thousands(n), text);
        }
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_are_cut() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij k", 4), ["abcd", "efgh", "ij k"]);
        assert_eq!(wrap("a,bc,defg", 6), ["a,bc,", "defg"]);
    }
}
