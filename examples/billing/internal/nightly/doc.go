// Package nightly bills every account once a night.
//
// Any number of workers may run the job for the same night: the lock lets one
// at a time do the work, and whoever comes later finds what is left. The
// ledger refuses a worker that lost the lock and does not know it yet.
package nightly
