//! How figures of several rounds are shown.

/// The median, and between what the figures lie.
pub(crate) fn spread(figures: impl Iterator<Item = f64>) -> String {
    let mut figures: Vec<f64> = figures.filter(|figure| !figure.is_nan()).collect();
    figures.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (figures.first(), figures.last()) else {
        return "-".to_owned();
    };
    let median = figures[figures.len() / 2];
    format!("{median:.2} ({least:.2}..{most:.2})")
}
