package ec2sim

import "time"

func (s *Sim) reservation(id string) *Reservation {
	for i := range s.reservations {
		if s.reservations[i].ID == id {
			return &s.reservations[i]
		}
	}
	return nil
}

// reservationState is the state in EC2's words.
func reservationState(r *Reservation, now time.Time) string {
	switch {
	case now.Before(r.Start):
		return "scheduled"
	case !r.End.IsZero() && !now.Before(r.End):
		return "expired"
	}
	return "active"
}
