package broker

// InHand returns how many deliveries the session has been handed that are not
// settled: those that wait for a handler among them. Of a session that is over it
// is 0: the broker has them back.
func (s *Session) InHand() int {
	if s.Err() != nil {
		return 0
	}
	s.acks.mu.Lock()
	defer s.acks.mu.Unlock()
	n := 0
	for _, state := range s.acks.tags {
		if state == open {
			n++
		}
	}
	return n
}
