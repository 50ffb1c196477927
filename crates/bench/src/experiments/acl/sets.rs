//! The study's data sets, which differ in the number of ACL entries per file. Each file has at least 3, which are the
//! permission bits.

use super::posix::PLAIN;
use crate::random::Random;

/// A data set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DataSet {
    /// Permission bits alone, the baseline.
    Plain,
    /// A small office: exponential distribution, mean 4.
    SmallOffice,
    /// A large office: exponential distribution, mean 9.
    LargeOffice,
    /// A social network: power law, mean 42.
    SocialNetwork,
}

/// All data sets, the baseline first.
pub(super) const SETS: [DataSet; 4] =
    [DataSet::Plain, DataSet::SmallOffice, DataSet::LargeOffice, DataSet::SocialNetwork];

impl DataSet {
    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            DataSet::Plain => "plain",
            DataSet::SmallOffice => "(a) small office",
            DataSet::LargeOffice => "(b) large office",
            DataSet::SocialNetwork => "(c) social network",
        }
    }

    /// Returns the directory of its files.
    pub(super) fn directory(self) -> &'static str {
        match self {
            DataSet::Plain => "plain",
            DataSet::SmallOffice => "small-office",
            DataSet::LargeOffice => "large-office",
            DataSet::SocialNetwork => "social-network",
        }
    }

    /// Returns its mean number of entries.
    fn mean(self) -> f64 {
        match self {
            DataSet::Plain => PLAIN as f64,
            DataSet::SmallOffice => 4.0,
            DataSet::LargeOffice => 9.0,
            DataSet::SocialNetwork => 42.0,
        }
    }

    /// Returns the numbers of entries of `files` files, at most `most` each.
    pub(super) fn entries(self, files: usize, most: usize, random: &mut Random) -> Vec<usize> {
        let shares = match self {
            DataSet::Plain => vec![1.0],
            DataSet::SmallOffice | DataSet::LargeOffice => geometric(self.mean() - PLAIN as f64, most - PLAIN),
            DataSet::SocialNetwork => power_law(self.mean(), most),
        };
        let sums: Vec<f64> = shares
            .iter()
            .scan(0.0, |sum, share| {
                *sum += share;
                Some(*sum)
            })
            .collect();
        let all = sums.last().copied().unwrap_or_default();
        let mut draw = || {
            let point = random.unit() * all;
            PLAIN + sums.partition_point(|sum| *sum <= point).min(sums.len() - 1)
        };
        (0..files).map(|_| draw()).collect()
    }
}

/// Returns the exponential distribution of whole numbers from 0 to `most`, with `mean` before truncation.
fn geometric(mean: f64, most: usize) -> Vec<f64> {
    let ratio = mean / (1.0 + mean);
    (0..=most).map(|number| ratio.powi(number as i32)).collect()
}

/// Returns the power law from [`PLAIN`] to `most` with the exponent that gives `mean`, or the nearest mean if `most` is
/// too small.
fn power_law(mean: f64, most: usize) -> Vec<f64> {
    let law = |exponent: f64| -> Vec<f64> { (PLAIN..=most).map(|number| (number as f64).powf(-exponent)).collect() };
    let mean_of = |shares: &[f64]| {
        let weighed: f64 = shares.iter().zip(PLAIN..).map(|(share, number)| share * number as f64).sum();
        weighed / shares.iter().sum::<f64>()
    };
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if mean_of(&law(middle)) > mean { low = middle } else { high = middle }
    }
    law(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(entries: &[usize]) -> f64 {
        entries.iter().sum::<usize>() as f64 / entries.len() as f64
    }

    #[test]
    fn the_data_sets_have_the_specified_means() {
        for set in SETS {
            let entries = set.entries(200_000, 500, &mut Random::new(1));
            let error = (mean(&entries) / set.mean() - 1.0).abs();
            assert!(error < 0.02, "{set:?}: {}", mean(&entries));
            assert!(entries.iter().all(|it| (3..=500).contains(it)), "{set:?}");
        }
    }

    #[test]
    fn the_distributions_are_those_of_the_study() {
        let share = |set: DataSet, from: usize| {
            let entries = set.entries(200_000, 500, &mut Random::new(2));
            entries.iter().filter(|it| **it >= from).count() as f64 / entries.len() as f64
        };
        // Exponential: each additional entry keeps the same fraction of files.
        assert!((share(DataSet::LargeOffice, 9) - (6.0f64 / 7.0).powi(6)).abs() < 0.01);
        // A power law has more long ACLs.
        assert!(share(DataSet::SocialNetwork, 200) > 0.03);
        assert_eq!(share(DataSet::LargeOffice, 200), 0.0);
    }

    #[test]
    fn no_acl_is_longer_than_the_file_system_allows() {
        for set in SETS {
            assert!(set.entries(1000, 10, &mut Random::new(3)).iter().all(|it| *it <= 10), "{set:?}");
            assert!(set.entries(10, 3, &mut Random::new(3)).iter().all(|it| *it == 3), "{set:?}");
        }
    }

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let draw = |seed| DataSet::SocialNetwork.entries(100, 500, &mut Random::new(seed));
        assert_eq!(draw(4), draw(4));
        assert_ne!(draw(4), draw(5));
    }
}
