package fencedlock

const (
	// maxBatch is how many renewals go into one round trip.
	maxBatch = 256
	// maxSenders bounds the batches under way at once, and with them the
	// goroutines of a Locker whose Redis does not answer.
	maxSenders = 8
)

// engage starts a sender for every batch of locks that is ready, as long as there
// are senders to spare. The mutex is held.
func (s *scheduler) engage() {
	for s.ready.Len() > s.coming*maxBatch && s.senders < maxSenders && !s.closed {
		s.senders++
		s.coming++
		s.work.Go(s.sendNext)
	}
}

// sendNext is one sender: it sends the batch that is most urgent by now. When it
// has, another takes its place if locks are ready, so that nobody waits for a
// timer, and a hook that takes long delays no renewal.
func (s *scheduler) sendNext() {
	s.Lock()
	s.coming--
	batch := s.take()
	s.Unlock()
	if len(batch) > 0 {
		s.send(batch)
	}
	s.Lock()
	s.senders--
	s.engage()
	s.Unlock()
	s.told(batch)
}

// take makes renewals for those whose lease ends first. More renewals than there
// is time for then cost all locks some of their lease, and none of them its end.
// The mutex is held.
func (s *scheduler) take() []*renewal {
	n := min(s.ready.Len(), maxBatch)
	if n == 0 {
		return nil
	}
	now := s.now()
	batch := make([]*renewal, n)
	for i := range batch {
		k := s.ready.next()
		batch[i] = k.renewal(now)
		s.watch(k, k.next(now))
	}
	return batch
}
