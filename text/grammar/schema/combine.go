package schema

// combination reads the keywords that combine other schemas.
type combination struct {
	goals *goals
	forms *forms
}

func (c *combination) reference(u use) (*form, error) {
	g, err := c.goals.referred(u.node, u.keyword, u.value)
	if err != nil {
		return nil, err
	}
	return c.forms.formOf(g)
}

func (c *combination) allOf(u use) (*form, error) {
	goals, err := c.goals.schemas(u.node, u.keyword, u.value)
	if err != nil {
		return nil, err
	}
	return c.forms.formOf(c.goals.all(goals...))
}

func (c *combination) anyOf(u use) (*form, error) {
	goals, err := c.goals.schemas(u.node, u.keyword, u.value)
	if err != nil {
		return nil, err
	}
	return c.forms.formOf(c.goals.any(goals...))
}

func (c *combination) not(u use) (*form, error) {
	return c.forms.formOf(c.goals.not(c.goals.sub(u.node, u.value, u.keyword)))
}

// conditional reads "if" with "then" and "else": a value is valid by if and then, or not by if, and by else.
func (c *combination) conditional(u use) (*form, error) {
	branch := func(keyword string) goal {
		if sub := u.node.v.get(keyword); sub != nil {
			return c.goals.sub(u.node, sub, keyword)
		}
		return always
	}
	condition, then, otherwise := c.goals.sub(u.node, u.value, u.keyword), branch("then"), branch("else")
	if then == always && otherwise == always {
		return nil, nil
	}
	yes := c.goals.all(condition, then)
	if then == always {
		yes = condition
	}
	return c.forms.formOf(c.goals.any(yes, c.goals.all(c.goals.not(condition), otherwise)))
}
