"""What the scripted agent does in each pipeline: scenarios, as demo/scripted_agent.py reads them."""
