package scenario

import "notifylab/internal/notify"

// MatrixVerdict sums results up: a finding and the victim's fate for each cell.
// Without a guard those that are not red are findings, too.
func MatrixVerdict(results []Result, without Guard, elapsedMS int64) Verdict {
	v := Verdict{Scenario: "matrix", Status: Held, ElapsedMS: elapsedMS}
	for _, r := range results {
		v.Findings = append(v.Findings, Finding{
			What: r.String(), Want: r.Cell.Want.String(), Got: r.Got(), OK: r.Status == Held, IDs: r.victim(),
		})
		if r.Victim != "" {
			v.Outcomes = append(v.Outcomes, Fate{r.Victim, string(notify.Push), r.Accepted, r.Outcome})
		}
		v.Accepted += r.Accepted
		switch {
		case r.Status == NotHeld:
			v.Status = NotHeld
		case r.Status == Inconclusive && v.Status == Held:
			v.Status = Inconclusive
		}
	}
	for _, r := range without.Unseen(results) {
		v.Status = NotHeld
		v.Findings = append(v.Findings, Finding{
			What: r.String() + " without " + without.Name, Want: "not " + r.Cell.Want.String(), Got: r.Got(), IDs: r.victim(),
		})
	}
	v.Outcome = worst(v.Outcomes)
	return v
}

func (r Result) victim() []string {
	if r.Victim == "" { // it was not judged
		return nil
	}
	return []string{r.Victim}
}
