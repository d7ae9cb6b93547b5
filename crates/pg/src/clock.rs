//! The clock: `clock_timestamp()`, never the start of the transaction.

use pgrx::pg_sys;

/// A time in microseconds of PostgreSQL's epoch (2000-01-01).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

impl Moment {
    /// -infinity, before every other moment.
    pub const MIN: Moment = Moment(i64::MIN);
    /// infinity, after every other moment.
    pub const MAX: Moment = Moment(i64::MAX);
    /// Microseconds from 1970 to PostgreSQL's epoch.
    pub const UNIX_EPOCH_MICROS: i64 = 946_684_800_000_000;

    pub fn now() -> Self {
        // SAFETY: reads the system's clock.
        Moment(unsafe { pg_sys::GetCurrentTimestamp() })
    }

    /// Formats it in the session's time zone.
    pub fn text(self) -> String {
        // SAFETY: a C string in a buffer of the server's, copied at once.
        unsafe { std::ffi::CStr::from_ptr(pg_sys::timestamptz_to_str(self.0)).to_string_lossy().into_owned() }
    }

    /// Returns the milliseconds since 1970.
    pub fn unix_ms(self) -> i64 {
        (self.0 / 1000).saturating_add(Self::UNIX_EPOCH_MICROS / 1000)
    }

    /// Returns the moment a number of seconds earlier.
    pub fn before(self, seconds: i64) -> Self {
        Moment(self.0.saturating_sub(seconds.saturating_mul(1_000_000)))
    }

    /// Returns the seconds from `self` to `later`, in milliseconds precision.
    pub fn seconds_until(self, later: Moment) -> f64 {
        let millis = later.0.saturating_sub(self.0) / 1000;
        millis as f64 / 1000.0
    }
}

impl pgrx::FromDatum for Moment {
    unsafe fn from_polymorphic_datum(datum: pg_sys::Datum, is_null: bool, _: pg_sys::Oid) -> Option<Self> {
        // timestamptz is passed by value.
        if is_null { None } else { Some(Moment(datum.value() as i64)) }
    }
}

impl pgrx::IntoDatum for Moment {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        Some(pg_sys::Datum::from(self.0))
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::TIMESTAMPTZOID
    }
}

impl From<Moment> for pgrx::datum::TimestampWithTimeZone {
    fn from(moment: Moment) -> Self {
        // SAFETY: a timestamptz datum is its microseconds, passed by value.
        unsafe {
            <Self as pgrx::FromDatum>::from_datum(pg_sys::Datum::from(moment.0), false)
                .unwrap_or_else(pgrx::datum::TimestampWithTimeZone::positive_infinity)
        }
    }
}

impl From<pgrx::datum::TimestampWithTimeZone> for Moment {
    fn from(timestamp: pgrx::datum::TimestampWithTimeZone) -> Self {
        Moment(pg_sys::TimestampTz::from(timestamp))
    }
}

/// Returns microseconds of a clock that all processes of the server share, and that never goes back. It has no date.
pub fn monotonic() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the structure; this clock exists on every supported system.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1000)
}
