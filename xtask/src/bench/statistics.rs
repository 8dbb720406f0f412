//! Medians and percentiles.

/// The median; the mean of both middle values for an even count; NaN for no values.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => f64::NAN,
        (count, middle) if count % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The smallest value that at least `percent` of all values do not exceed; NaN for no values.
pub(super) fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The median of the ratios of values from the same round.
pub(super) fn median_ratio(over: &[f64], under: &[f64]) -> f64 {
    let ratios: Vec<f64> = over.iter().zip(under).map(|(over, under)| over / under).collect();
    median(&ratios)
}

/// The median of the differences of values from the same round.
pub(super) fn median_difference(from: &[f64], to: &[f64]) -> f64 {
    let differences: Vec<f64> = from.iter().zip(to).map(|(from, to)| to - from).collect();
    median(&differences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), 100.0);
        assert_eq!(percentile(&values, 99), 198.0);
        assert_eq!(percentile(&[7.0], 99), 7.0);
    }

    #[test]
    fn neighbours_are_compared_before_the_median_is_taken() {
        assert_eq!(median_ratio(&[1.0, 10.0, 100.0], &[2.0, 20.0, 50.0]), 0.5);
        assert_eq!(median_difference(&[1.0, 10.0, 100.0], &[2.0, 12.0, 101.0]), 1.0);
    }
}
