//! A record as one line for a person.

use std::fmt::{self, Display};
use std::io::{self, Write};

use timely_kafka::records::{Record, RecordTime, RecordTimeType};

/// `east/orders/2@41  2023-11-14T22:13:20.000Z  "key"  "value"`: cluster, topic, partition, offset,
/// record time, key and value.
pub(crate) fn write(output: &mut impl Write, record: &Record) -> io::Result<()> {
    writeln!(
        output,
        "{}@{}  {}  {}  {}",
        record.split,
        record.offset,
        Time(record.record_time),
        Readable(record.key.as_deref()),
        Readable(record.value.as_deref()),
    )
}

/// Text in quotes; bytes that are none as `b"..."`; null without quotes, so that it differs from the
/// text "null". What could move the cursor of a terminal is escaped.
struct Readable<'a>(Option<&'a [u8]>);

impl Display for Readable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.map(|bytes| (bytes, str::from_utf8(bytes))) {
            None => f.write_str("null"),
            Some((_, Ok(text))) => write!(f, "{text:?}"),
            Some((bytes, Err(_))) => write!(f, "b\"{}\"", bytes.escape_ascii()),
        }
    }
}

/// A record time in UTC, to the millisecond.
struct Time(RecordTime);

impl Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.kind == RecordTimeType::NotAvailable {
            return f.write_str("no time");
        }
        let millis = self.0.millis;
        let (year, month, day) = date(millis.div_euclid(86_400_000));
        let of_day = millis.rem_euclid(86_400_000);
        let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
        let (second, milli) = (of_day / 1_000 % 60, of_day % 1_000);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z"
        )
    }
}

/// Year, month and day of the Gregorian calendar, by the number of days since 1970-01-01.
///
/// Years are counted from 1 March, so that a leap day is the last day of its year, and in eras of
/// 400 years, which all have 146,097 days.
fn date(days: i64) -> (i64, i64, i64) {
    // From 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    // Of the days that went by, leap days are those of every 4th year but not of the 100th ones; the
    // last day of an era is one more.
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, months have 31, 30, 31, 30 and 31 days, again and again.
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}
