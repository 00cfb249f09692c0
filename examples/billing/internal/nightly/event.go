package nightly

// Kind says what an [Event] is about.
type Kind string

// What a job tells of.
const (
	Waiting  Kind = "waiting"  // for the lock
	Acquired Kind = "acquired" // the lock: the work begins
	Finished Kind = "finished" // nothing is left to bill
	Refused  Kind = "refused"  // by the ledger: a newer worker has taken over
	Failed   Kind = "failed"   // for any other reason

	// Without a lock.
	Asked Kind = "asked" // whether the night has been billed
	Began Kind = "began" // the transaction that bills it
	Takes Kind = "takes" // jobs from the queue
)

// Event is one step of a job.
type Event struct {
	Kind Kind
	// Fence is the ID of the tenure, or the attempt at a job; 0 without one.
	Fence int64
	// Account is the one at hand, 0 without one.
	Account int64
	// Billed is the number of accounts billed in this tenure so far.
	Billed int
	// Err is what went wrong, empty when nothing did.
	Err string
}
